"""HTTP as every JSON service of Holdfast speaks it: bodies that are read within bounds, refusals of one shape."""
