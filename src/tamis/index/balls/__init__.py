"""Balls: which cover a ball, which hold a point, which a ball covers. See `tamis.index.balls.ball_index`."""
