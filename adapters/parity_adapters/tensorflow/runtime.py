"""How TensorFlow and Keras are started: on the CPU, with Keras on TensorFlow, and quiet.

Every module of this adapter takes ``tf`` and ``keras`` from here, so that the environment is set before either
is imported. Setting it for the whole process is right because an adapter is only ever loaded in a worker process
of its own. What TensorFlow computes is left alone: oneDNN, XLA and thread settings are the user's.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # results are the CPU's; probing for a GPU costs seconds
os.environ["KERAS_BACKEND"] = "tensorflow"  # rows named keras.* of this adapter are Keras on TensorFlow
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import keras  # reads the environment when it is imported
import tensorflow as tf  # reads the environment when it is imported

# TensorFlow logs a warning each time a function is traced for another shape, which is our normal way of working.
tf.get_logger().setLevel("ERROR")

__all__ = ["keras", "tf"]
