"""An index of balls: which cover a ball, contain a point, or lie in a ball. See `tamis.index.balls.ball_index`."""
