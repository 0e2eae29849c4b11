"""Many points: families of recipes, the search on validation, the paper's settings, sweeps, and the study.

``family`` and ``settings`` describe; ``search`` chooses on validation and looks at test once; ``comparison`` tells a
difference from noise; ``study`` runs everything, from the engine's store as far as it is there; ``report``,
``figures`` and ``tables`` write it down.  ``spec`` is a sweep's YAML.
"""
