"""The main job, on real data: what ``python -m nbgrad demo`` runs."""
