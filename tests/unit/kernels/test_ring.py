"""Simple rings: against GEOS, against integers of any size, and against the clock."""

from __future__ import annotations

import numpy as np
import pytest
import shapely

from tamis.kernels.polygons import ring as r
from tests.effort import effort


def closed(points):
    points = np.asarray(points, np.float64)
    return np.vstack([points, points[:1]])


@pytest.fixture(params=["compiled", "plain"])
def form(request, monkeypatch):
    """Run a test with the compiled kernels, and with the plain functions all the way down."""
    if request.param == "plain":
        for name, value in list(vars(r).items()):
            if hasattr(value, "py_func"):
                monkeypatch.setattr(r, name, value.py_func)
    return request.param


# --- the truth, from Python's integers -----------------------------------------------------------------------------


def exact_points(ring):
    """Return the vertices as integers: every finite float64 is a multiple of 2**-1074."""
    parts = (value.as_integer_ratio() for value in ring.ravel().tolist())
    whole = [above * ((1 << 1074) // below) for above, below in parts]
    return list(zip(whole[::2], whole[1::2], strict=True))


def side(a, b, c):
    det = (a[0] - c[0]) * (b[1] - c[1]) - (a[1] - c[1]) * (b[0] - c[0])
    return (det > 0) - (det < 0)


def lies_on(a, b, p):
    boxed = all(min(s, t) <= u <= max(s, t) for s, t, u in zip(a, b, p, strict=True))
    return boxed and side(a, b, p) == 0


def edges_meet(points, i, j):
    """Whether edges ``i < j`` of a closed list of points meet elsewhere than at the vertex that neighbours share."""
    n = len(points) - 1
    a, b, c, d = points[i], points[i + 1], points[j], points[j + 1]
    if n < 3 or a in (b, c) or c == d:
        return True
    if i + 1 == j:
        return lies_on(a, b, d) or lies_on(c, d, a)
    if i == 0 and j == n - 1:
        return lies_on(a, b, c) or lies_on(c, d, b)
    crossing = side(a, b, c) * side(a, b, d) < 0 and side(c, d, a) * side(c, d, b) < 0
    return crossing or lies_on(a, b, c) or lies_on(a, b, d) or lies_on(c, d, a) or lies_on(c, d, b)


def check_against_integers(ring):
    points = exact_points(ring)
    contact = r.find_contact(ring)
    if contact is None:
        assert not any(edges_meet(points, i, j) for j in range(len(ring) - 1) for i in range(j)), ring.tolist()
    else:
        assert edges_meet(points, *contact), (ring.tolist(), contact)
    return contact is None


def check_against_geos(rings):
    """Compare many rings, given as a list, and return how many are simple; GEOS alone forgives a repeated point."""
    rings = [ring for ring in rings if not (ring[1:] == ring[:-1]).all(axis=1).any()]
    valid = shapely.is_valid([shapely.Polygon(ring) for ring in rings])
    for ring, expected in zip(rings, valid.tolist(), strict=True):
        assert (r.find_contact(ring) is None) == expected, ring.tolist()
    return int(valid.sum()), len(rings)


# --- rings, simple ones of n vertices or a few less ----------------------------------------------------------------


def star(n, inner=0.01):
    angles = np.linspace(0, 2 * np.pi, n, endpoint=False)
    radius = np.where(np.arange(n) % 2, inner, 1.0)
    return closed(np.column_stack([radius * np.cos(angles), radius * np.sin(angles)]))


def circle(n):
    return star(n, 1.0)


def comb(n):
    k = np.arange(n - 2)
    return closed([*zip(k, k % 2 * 100.0, strict=True), (n, -1), (-1, -1)])


def spiral(n):
    t = np.linspace(2, 2 + (n / 2) ** (2 / 3), n // 2)
    outer, inner = (np.column_stack([s * np.cos(t), s * np.sin(t)]) for s in (t, t - 1))
    return closed(np.vstack([outer, inner[::-1]]))


def zigzag(n, seed=None):
    """All edges lie under the line at once; they enter and leave at the front, or in a random order."""
    half = (n - 1) // 2
    left = right = np.arange(half)[::-1]
    if seed is not None:
        left, right = np.random.default_rng(seed).permuted([left, right], axis=1)
    teeth = np.empty((2 * half, 2))
    teeth[:, 1] = np.arange(2 * half)
    teeth[::2, 0], teeth[1::2, 0] = left, right + 1e6
    return closed(np.vstack([teeth, [[-5, 2 * half], [-5, -1]]]))


def shuffled_zigzag(n):
    return zigzag(n, seed=6)


def along_an_axis(n):
    return closed([*((k, 0) for k in range(n - 2)), (n, 1), (0, 1)])


def along_a_diagonal(n):
    """Vertices on the line y = x whose differences are not float64 numbers."""
    t = np.sort(np.random.default_rng(1).random(n - 1) ** 20 * 1e3)
    return closed(np.vstack([np.column_stack([t, t]), [[0, 1e3]]]))


def equal_x(n):
    k = np.arange(n // 2)
    left, right = np.column_stack([k % 2, k]), np.column_stack([k % 2 + 2, k])
    return closed(np.vstack([left, right[::-1]]))


def stairs(n):
    """A snake on a grid: few x, few y, collinear neighbours everywhere."""
    k = np.arange(n // 2)
    step = np.column_stack([(k + 1) // 2, k // 2])
    return closed(np.vstack([step, step[::-1] + np.array([-1, 1])]))


def sliver(n):
    """All vertices lie within one unit in the last place of a line."""
    t = np.unique(np.exp(np.random.default_rng(2).uniform(-12, 0, n // 2)))
    above, below = np.column_stack([t, np.nextafter(t, 9)]), np.column_stack([t, np.nextafter(t, -9)])
    return closed(np.vstack([above, below[::-1]]))


def bundle(n, tiny=1e-40, large=1.0, seed=None):
    """Long edges ``tiny`` apart that end on one line: float64 decides nothing, not even twice as many bits do."""
    k = np.arange(n - 2)
    offset = (k // 2 + 1) * tiny
    ends = large * (2 + (k // 2) * 2.0**-30)
    early = 0.0 if seed is None else np.random.default_rng(seed).permutation(n - 2) * tiny / n
    points = np.where((k % 2 == 0)[:, None], np.column_stack([-offset - early, offset]), np.column_stack([ends, ends]))
    return closed(np.vstack([points, [[2.1 * large, 4 * large], [2.05 * large, -large]]]))


def shuffled_bundle(n):
    return bundle(n, seed=5)


def extreme_bundle(n):
    """The least and nearly the largest numbers: the longest integers."""
    return bundle(n, 5e-324, 4e307)


def chevrons(n):
    """A ribbon of nested wedges: each pair of edges enters between the pair before, and labels run out."""
    count = n // 6
    end = count + 2.0

    def side_of_ribbon(left):
        for i in range(count):
            inset = 0.0 if (i % 2 == 0) == left else 0.5
            top = (end + 0.1 * left, end - i - inset)
            bottom = (end + 0.1 * (not left), i + inset - end)
            yield from (bottom, (i + inset, 0), top) if i % 2 == 0 else (top, (i + inset, 0), bottom)

    return closed([*side_of_ribbon(True), *[*side_of_ribbon(False)][::-1]])


FAMILIES = [
    *(star, circle, comb, spiral, zigzag, shuffled_zigzag, along_an_axis, along_a_diagonal, equal_x, stairs, sliver),
    *(bundle, shuffled_bundle, extreme_bundle, chevrons),
]
#: GEOS computes with 106 bits and calls these invalid; the integers know better.
BEYOND_GEOS = {bundle, shuffled_bundle, extreme_bundle}


def families(of):
    return pytest.mark.parametrize("make", of, ids=lambda make: make.__name__)


every_family = families(FAMILIES)


# --- verdicts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "simple"),
    [
        ([(0, 0), (1, 0), (0, 1)], True),
        ([(0, 0), (4, 0), (4, 4), (0, 4)], True),
        ([(0, 0), (1, 0), (2, 0), (2, 2), (0, 2), (0, 1)], True),  # vertices along edges
        ([(0, 0), (2, 2), (2, 0), (0, 2)], False),  # a bow tie
        ([(0, 0), (4, 0), (4, 4), (2, 0), (0, 4)], False),  # a vertex on an edge, edges to one side
        ([(0, 0), (2, 1), (4, 0), (4, -2), (2, 1), (0, 4)], False),  # equal vertices
        ([(0, 0), (4, 0), (2, 0), (2, 2)], False),  # a spike to the right
        ([(4, 0), (0, 0), (2, 0), (2, 2)], False),  # a spike to the left
        ([(0, 0), (0, 4), (0, 2), (2, 2)], False),  # a spike along y
        ([(0, 0), (4, 0), (4, 2), (3, 0), (1, 0), (0, 2)], False),  # edges that overlap
        ([(0, 0), (1, 1), (2, 2)], False),  # no area
        ([(0, 0), (1, 0), (1, 0), (0, 1)], False),  # a repeated point
        ([(0, 0), (0, 0), (0, 0)], False),
        ([(0, 0), (1, 0)], False),
        ([(0, 0), (-0.0, 0.0), (1, 1)], False),  # zeros of both signs are equal
    ],
)
def test_rings_by_hand(form, points, simple):
    for turn in range(len(points)):
        for way in (1, -1):
            ring = closed(np.roll(points, turn, axis=0)[::way])
            assert check_against_integers(ring) == simple
            assert check_against_integers(ring[:, ::-1]) == simple


@every_family
def test_families_are_simple(form, make):
    ring = make(90)
    with np.errstate(over="ignore", invalid="ignore"):  # said in the plain form only; the integers decide
        assert check_against_integers(ring)
    if make not in BEYOND_GEOS:
        assert check_against_geos([ring]) == (1, 1)


@every_family
def test_families_of_many_vertices(make):
    ring = make(300)
    assert r.find_contact(ring) is None
    if make not in BEYOND_GEOS:
        assert check_against_geos([ring]) == (1, 1)


def test_small_rings_against_geos():
    rng = np.random.default_rng(1)
    rings = [closed(rng.random((n, 2))) for n in rng.integers(3, 9, 6_000)]
    simple, total = check_against_geos(rings)
    assert total / 5 < simple < total


def test_grid_rings_against_geos():
    """Integers: touching vertices, overlapping edges, spikes, equal points, collinear neighbours."""
    rng = np.random.default_rng(2)
    rings = []
    for size in (3, 4, 6):
        n = rng.integers(3, 8, 6_000)
        rings += [closed(rng.integers(0, size, (k, 2))) for k in n]
    simple, total = check_against_geos(rings)
    assert total / 10 < simple < total * 0.9


def test_star_shaped_rings_against_geos():
    """Rings around a centre, whole and with two vertices exchanged or one put on a line of two others."""
    rng = np.random.default_rng(3)
    rings = []
    for n in rng.integers(3, 40, 4_000):
        angles = np.sort(rng.random(n)) * 2 * np.pi
        points = rng.uniform(0.2, 1, (n, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])
        i, j, k = rng.integers(0, n, 3)
        match rng.integers(0, 3):
            case 0:
                points[[i, j]] = points[[j, i]]
            case 1:
                points[i] = (points[j] + points[k]) / 2
        rings.append(closed(points))
    simple, total = check_against_geos(rings)
    assert total / 3 < simple < total * 0.9


@families([make for make in FAMILIES if make not in BEYOND_GEOS])
def test_changed_families_against_geos(make):
    """Another first vertex, the other direction, another orientation of the plane; and one vertex moved."""
    rng = np.random.default_rng(4)
    rings = []
    for trial in range(60):
        points = np.roll(make(120)[:-1], rng.integers(120), axis=0)[:: rng.choice([-1, 1])]
        points = points[:, :: rng.choice([-1, 1])] * rng.choice([-1, 1], 2)
        if trial % 2:
            i, j = rng.integers(0, len(points), 2)
            points[i] = points[j] + rng.choice([0, 0.25, 1, 3], 2) * rng.choice([-1, 1], 2)
        rings.append(closed(points))
    simple, total = check_against_geos(rings)
    assert 0 < simple <= total


def nearly_degenerate(rng, n):
    """Points of a small grid, scaled by numbers that are not sums of few powers of 2, and moved by one bit."""
    scale = rng.choice([0.1, 1 / 3, 1e-9, 0.7e100, 1.0], 2)
    points = rng.integers(0, 4, (n, 2)) * scale + rng.choice([0.0, 1.0, 0.3], 2)
    return closed(np.nextafter(points, points + rng.integers(-1, 2, (n, 2))))


def mixed_scales(rng, n):
    """Coordinates from all over float64, with equal ones among them."""
    base = rng.integers(-3, 4, (n, 2)).astype(float)
    power = rng.choice([-1074.0, -600, -53, -1, 0, 0, 0, 1, 60, 900], (n, 2))
    return closed(base * 2.0**power + rng.choice([0.0, 0.0, 1.0, 2.0**-1060], (n, 2)))


@pytest.mark.parametrize("make", [nearly_degenerate, mixed_scales])
def test_hard_rings_against_integers(form, make):
    rng = np.random.default_rng(5)
    trials = 4_000 if form == "compiled" else 300
    with np.errstate(all="ignore"):
        simple = sum(check_against_integers(make(rng, n)) for n in rng.integers(3, 7, trials))
    assert trials / 10 < simple < trials * 0.9


def test_slivers_with_a_moved_bit_against_integers():
    """Long thin rings along one line, one coordinate moved by a bit or two."""
    rng = np.random.default_rng(6)
    simple = 0
    for trial in range(300):
        ring = (sliver, along_a_diagonal, bundle)[trial % 3](24)[:-1]
        i, axis = rng.integers(0, len(ring)), rng.integers(0, 2)
        for _ in range(rng.integers(1, 3)):
            ring[i, axis] = np.nextafter(ring[i, axis], rng.choice([-np.inf, np.inf]))
        simple += check_against_integers(closed(ring))
    assert 30 < simple < 270


# --- sides ---------------------------------------------------------------------------------------------------------


def nearly_on_a_line(rng, n):
    """Points along a random line, as near to it as rounding and a moved bit let them be."""
    (start, along), t = rng.normal(0, 1, (2, 2)), rng.choice([1.0, 8.0, 1e3], (n, 1)) * rng.random((n, 1))
    points = start + t * along
    return closed(np.nextafter(points, points + rng.integers(-1, 2, (n, 2))))


def around_the_least_normal(rng, n):
    return closed(rng.integers(-2, 3, (n, 2)) * 2.0**-1022 + rng.integers(-2, 3, (n, 2)) * 2.0**-1074)


@pytest.mark.parametrize("question", ["side_of", "exact_side"])
@pytest.mark.parametrize("make", [nearly_degenerate, nearly_on_a_line, mixed_scales, around_the_least_normal])
def test_sides_against_integers(form, make, question):
    rng = np.random.default_rng(7)
    seen = set()
    for _ in range(800):
        ring = make(rng, 3)
        sweep = r.new_sweep(ring, np.arange(3))
        points = exact_points(ring)
        for a, b, c in ((0, 1, 2), (2, 1, 0), (1, 2, 3), (0, 0, 1)):
            with np.errstate(all="ignore"):
                answer = getattr(r, question)(sweep, a, b, c)
            assert answer == side(points[a], points[b], points[c])
            seen.add(int(answer))
    assert seen == {-1, 0, 1}


def test_the_largest_and_the_least_numbers(form):
    """No column of the integers overflows, no place lies outside."""
    most, least = np.finfo(np.float64).max, 5e-324
    values = [most, -most, least, -least, 0.0, -0.0, np.nextafter(most, 0), 2.0**1000 - 2.0**947]
    rng = np.random.default_rng(8)
    for _ in range(300):
        ring = closed(rng.choice(values, (3, 2)))
        points = exact_points(ring)
        verdict = r.exact_side(r.new_sweep(ring, np.arange(3)), 0, 1, 2)
        assert verdict == side(*points[:3])


# --- time ----------------------------------------------------------------------------------------------------------


@every_family
def test_no_ring_is_slow(make):
    """At most 2.5 units were measured; GEOS takes 80 for the star."""
    ring = make(10_000)
    assert r.find_contact(ring) is None  # compiles too
    assert effort(lambda: r.find_contact(ring)) < 15
