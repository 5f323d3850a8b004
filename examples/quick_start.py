"""A kernel whose grid bound is known only at run time, on a CPU."""

import jax
import jax.numpy as jnp
import pallas_rs
from jax.experimental import pallas as pl


def double(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


@jax.jit
def double_some(x, n):
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        double,
        grid=(n,),
        in_specs=[block],
        out_specs=block,
        out_shape=x,
        input_output_aliases={0: 0},
        interpret=pallas_rs.Params(),
    )(x)


def main():
    x = jnp.ones((64, 128))
    for n in (0, 3, 8):
        rows = int((double_some(x, n)[:, 0] == 2).sum())
        assert rows == 8 * n
        print(f"{n} blocks: {rows} rows doubled")
    print(pallas_rs.last_report())


if __name__ == "__main__":
    main()
