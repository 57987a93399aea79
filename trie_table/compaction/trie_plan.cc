#include "trie_table/compaction/trie_plan.h"

namespace cairn {

void HashPlan::SetBusy(const TrieJob& job, bool busy) {
  if (job.kind == TrieJob::Kind::kSplit) {
    shape.SetSpanningFileBusy(job.inputs[0], busy);
  } else {
    shape.SetBusy(job.id, busy);
  }
}

void HashPlan::Begin(TrieJob* job) {
  SetBusy(*job, true);
  picker.Started(*job);
}

void HashPlan::End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  SetBusy(job, false);
  picker.Finished(job, ok, output_bytes, oldest_snapshot);
}

void KeyPlan::Begin(TrieJob* job) {
  job->number = next_job_++;
  shape.Begin(job->number, job->runs, job->inputs);
  picker.Started(*job);
}

void KeyPlan::End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  shape.End(job.number);
  picker.Finished(job, ok, output_bytes, oldest_snapshot);
}

}  // namespace cairn
