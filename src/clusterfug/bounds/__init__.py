"""Lower bounds on the objective of every clustering, with certificates that can be verified."""
