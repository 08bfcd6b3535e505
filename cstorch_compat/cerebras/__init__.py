"""The vendor's packages as release 2.10 has them; `generations` has what older releases had beside them."""
