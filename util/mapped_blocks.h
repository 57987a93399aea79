// Whether a file system has room for every store into a mapped file whose blocks are allocated. Without, a full one
// ends the process (SIGBUS).
//
// Thread-safety: none is needed.

#pragma once

namespace cairn {

// The number of the file system; 0: unknown.
long FileSystemOf(int fd);

// False: each block is written anew elsewhere.
bool WritesBlocksInPlace(int fd);

// Of an empty file, where the file system leaves the choice.
void AskToWriteBlocksInPlace(int fd);

}  // namespace cairn
