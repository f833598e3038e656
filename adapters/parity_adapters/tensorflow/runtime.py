"""How TensorFlow and Keras are started: on the CPU, with Keras on TensorFlow, and quiet.

Every module of this adapter takes ``tf`` and ``keras`` from here, so that the environment is set before either
is imported. Setting it for the whole process is right because an adapter is only ever loaded in a worker process
of its own. What TensorFlow computes is left alone: oneDNN, XLA and thread settings are the user's.
"""

import os
from collections.abc import Sequence
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # results are the CPU's; probing for a GPU costs seconds
os.environ["KERAS_BACKEND"] = "tensorflow"  # rows named keras.* of this adapter are Keras on TensorFlow
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # reads the environment when it is imported
import tensorflow as tf  # reads the environment when it is imported
from keras.src.utils.naming import reset_uids  # alone: `clear_session` forgets the dtype policy and the seed as well
from tensorflow.lite.python import schema_py_generated as schema  # TFLite's flatbuffer
from tensorflow.python.eager import context, execute

# TensorFlow logs a warning each time a function is traced for another shape, which is our normal way of working.
tf.get_logger().setLevel("ERROR")


def run_kernel(op: str, inputs: Sequence[Any], attributes: Sequence[Any], outputs: int) -> list[Any]:
    """Runs one operator eagerly, as the generated wrappers of ``tf.raw_ops`` do, for operators known by name alone.

    Args:
        op: Its registered name.
        inputs: Eager tensors, lists of them flattened.
        attributes: Name, value, name, value, …; types as their enumeration, shapes as lists.
        outputs: How many tensors it makes.

    Raises:
        tf.errors.OpError: It has no kernel for these types, or refuses its inputs.
    """
    made: list[Any] = execute.execute(op, outputs, list(inputs), tuple(attributes), context.context())
    return made


__all__ = ["keras", "reset_uids", "run_kernel", "schema", "tf"]
