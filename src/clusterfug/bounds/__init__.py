"""What no clustering can beat: lower bounds and proofs."""
