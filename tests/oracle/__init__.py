"""An independent, naive implementation of the scheduling contract, against which the product is compared."""
