// How long a writer waits that puts at half the rate that a trie in key order sustains, by simulation (paced_key_trie.h):
// the same on any machine, a few seconds for each line.
//
//   paced_key_trie_bench [--buffers=177] [--plays=3] [--share=0.5] [--keys=uniform|spot] [--trie=fan_out=8;...]
//
// 177 write buffers of as many keys become a trie of 7 roots, as 100 million puts do with the defaults.

#include <gflags/gflags.h>
#include <unistd.h>

#include <cstdio>

#include "trie_table/compaction/paced_key_trie.h"
#include "trie_table/compaction/trie_options.h"

DEFINE_uint64(buffers, 177, "Write buffers that are put");
DEFINE_uint64(plays, 3, "Plays, each with other keys");
DEFINE_double(share, 0.5, "Rate of the paced writer, as a share of what is sustained");
DEFINE_string(keys, "uniform", "uniform or spot");
DEFINE_string(trie, "", "TrieOptions other than those of ordered_trie");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  cairn::PacedPlay play;
  play.trie = cairn::KeyOrderTrie();
  const rocksdb::Status s = cairn::TrieOptionsFromString(FLAGS_trie, &play.trie);
  if (!s.ok() || (FLAGS_keys != "uniform" && FLAGS_keys != "spot")) {
    fprintf(stderr, "paced_key_trie_bench: %s\n", s.ok() ? "--keys is uniform or spot" : s.ToString().c_str());
    return 1;
  }
  play.keys = FLAGS_keys == "spot" ? cairn::PacedPlay::Keys::kHotSpot : cairn::PacedPlay::Keys::kUniform;
  play.buffers = FLAGS_buffers;
  printf(
      "| sustained, MB/s: written, space | paced: p99 | p99.9 | longest | throttled | written | space | largest |\n");
  printf("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (uint64_t i = 1; i <= FLAGS_plays; ++i) {
    play.seed = i;
    play.rate = 0;
    const cairn::PacedOutcome free = cairn::Play(play);
    const double sustained = static_cast<double>(play.buffers * play.write_buffer_bytes) / free.seconds;
    play.rate = FLAGS_share * sustained;
    const cairn::PacedOutcome paced = cairn::Play(play);
    printf("| %.1f: %.2f, %.2f | %.1f ms | %.1f ms | %.1f ms | %.1f %% | %.2f | %.2f | %.2f |\n", sustained / 1e6,
           free.written, free.space, 1e3 * paced.p99, 1e3 * paced.p999, 1e3 * paced.longest,
           100 * paced.throttled / paced.seconds, paced.written, paced.space, paced.largest);
    fflush(stdout);
  }
  return 0;
}
