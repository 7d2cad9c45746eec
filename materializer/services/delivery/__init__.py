"""What follows a publication: failing here never unpublishes."""
