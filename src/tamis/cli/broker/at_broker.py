"""The options that name a command's broker: declared once, and added to a command by `at_broker`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from tamis.runtime.client.http_calls import HttpCalls

__all__ = ["FIRST_ANSWER_SECONDS", "HERE", "TAKE_OVER_SECONDS", "Broker", "Namespace", "Url", "at_broker"]

Namespace = Annotated[
    str, typer.Option("--namespace", help="The namespace; events match subscriptions of the same namespace only.")
]

Url = Annotated[
    list[str],
    typer.Option(
        "--url", envvar="TAMIS_URL", help="Where the broker is; repeat it, or use commas, for those of its standbys."
    ),
]

#: Seconds for the first answer of a broker to a person who waits for it, and of one that has standbys: a take-over
#: may be under way.
FIRST_ANSWER_SECONDS, TAKE_OVER_SECONDS = 5.0, 10.0


@dataclass(frozen=True)
class Broker:
    """The addresses of a broker, and the token for it; its ``repr`` shows no secret."""

    url: Url
    token: Annotated[
        str | None,
        typer.Option("--token", envvar="TAMIS_TOKEN", help="A token; better in TAMIS_TOKEN than on the command line."),
    ] = None
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow the token to be sent unencrypted (http) to another machine.")
    ] = False

    def __repr__(self) -> str:
        return f"Broker({', '.join(self.url)})"

    @property
    def has_standbys(self) -> bool:
        """Whether the broker has several addresses."""
        from tamis.runtime.broker_addresses import BrokerAddresses

        return BrokerAddresses(self.url).has_others

    @property
    def first_answer_seconds(self) -> float:
        """Seconds to wait for the first answer."""
        return TAKE_OVER_SECONDS if self.has_standbys else FIRST_ANSWER_SECONDS

    def calls(self, namespace: str = "default", *, patience: float = 0.0) -> HttpCalls:
        """Return its HTTP interface; a call is tried once, or for ``patience`` seconds, which a line says.

        With standbys it is tried until one of them may have taken over.
        """
        from tamis.cli.screen import errors
        from tamis.runtime.client.http_calls import HttpCalls

        def tell(problem: str) -> None:
            errors().say(f"{', '.join(self.url)}: {problem}; trying again for {patience:g} s")

        patience = max(patience, TAKE_OVER_SECONDS if self.has_standbys else 0.0)
        return HttpCalls(self.url, self.token or "", namespace, patience, self.insecure, tell)


#: The broker of a command that is told of none.
HERE = Broker(["http://127.0.0.1:8080"])


def at_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which the options of `Broker` replace the parameter ``broker``, at the same position."""
    signature, options = inspect.signature(command, eval_str=True), inspect.signature(Broker, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.name == "broker":
            parameters += [option.replace(default=getattr(HERE, option.name)) for option in options.parameters.values()]
        else:
            parameters.append(parameter)

    @wraps(command)
    def run(**arguments: Any) -> None:
        broker = Broker(*(arguments.pop(name) for name in options.parameters))
        command(broker=broker, **arguments)

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # typer asks for it
    run.__annotations__ = {option.name: option.annotation for option in parameters}
    return run
