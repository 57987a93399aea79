// Stands for the libraries that a process of many parts has loaded before: takes nearly all of the loader's reserve of
// static thread-local storage, and with the other library (tls_block.c) much of the dynamic kind.

__thread char reserved[1200] __attribute__((tls_model("initial-exec")));

int TouchBlock(int value);

int TouchThreadLocals(int value) {
  reserved[value % (int)sizeof(reserved)] = (char)value;
  return TouchBlock(value) + reserved[0];
}
