"""What `import torch.linalg` finds."""

import sys

from cstorch_compat.names import manifest
from lazytensor.functions.linalg import cholesky as cholesky
from lazytensor.functions.linalg import cross as cross
from lazytensor.functions.linalg import det as det
from lazytensor.functions.linalg import diagonal as diagonal
from lazytensor.functions.linalg import eigh as eigh
from lazytensor.functions.linalg import eigvalsh as eigvalsh
from lazytensor.functions.linalg import householder_product as householder_product
from lazytensor.functions.linalg import inv as inv
from lazytensor.functions.linalg import inverse as inverse
from lazytensor.functions.linalg import lu as lu
from lazytensor.functions.linalg import lu_factor as lu_factor
from lazytensor.functions.linalg import matmul as matmul
from lazytensor.functions.linalg import matrix_exp as matrix_exp
from lazytensor.functions.linalg import matrix_norm as matrix_norm
from lazytensor.functions.linalg import matrix_power as matrix_power
from lazytensor.functions.linalg import matrix_rank as matrix_rank
from lazytensor.functions.linalg import multi_dot as multi_dot
from lazytensor.functions.linalg import norm as norm
from lazytensor.functions.linalg import pinv as pinv
from lazytensor.functions.linalg import qr as qr
from lazytensor.functions.linalg import slogdet as slogdet
from lazytensor.functions.linalg import solve as solve
from lazytensor.functions.linalg import solve_triangular as solve_triangular
from lazytensor.functions.linalg import svd as svd
from lazytensor.functions.linalg import svdvals as svdvals
from lazytensor.functions.linalg import vecdot as vecdot
from lazytensor.functions.linalg import vector_norm as vector_norm

manifest.explain("torch.linalg", sys.modules[__name__])
