"""What a pair of items costs: the `Problem` protocol, dense problems (features), explicit graphs."""
