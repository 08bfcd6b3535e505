"""How fast a run is: rates, progress, spans of time and traces."""
