"""LiNeS Explorer: what a merged model gains on its target and loses everywhere else."""
