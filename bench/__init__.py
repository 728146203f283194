"""What we claim, beside the peers, one command each."""
