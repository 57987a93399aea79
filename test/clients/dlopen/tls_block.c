// The other library: a large block of thread-local storage of the dynamic kind.

__thread char block[1 << 20];

int TouchBlock(int value) {
  block[value % (int)sizeof(block)] = (char)value;
  return block[0];
}
