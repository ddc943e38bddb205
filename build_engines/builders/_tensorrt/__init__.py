"""The rooms of the TensorRT builder: shapes (profiles) → simplify (the graph) → plan (on a GPU), and the dry run."""
