"""Run the validation as `python -m wse_sim.validation`."""

import sys

from wse_sim.validation.command import main

sys.exit(main())
