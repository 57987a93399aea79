// RocksDB calls this once, from its plugin list, when the object registry is first used.

#include <memory>
#include <string>

#include "memtable_cache/sub_memtable_factory.h"
#include "msls/key_sample.h"
#include "msls/round_robin.h"
#include "msls/tuner.h"
#include "result_cache/result_cache_listener.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/listener.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/object_registry.h"
#include "table/ect/ect_table.h"
#include "table/ect/hash_order_table.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/prefix_order.h"
#include "table/ordered/ordered_table.h"
#include "table/silt/silt_merges.h"
#include "table/silt/silt_table.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "trie_table/htable/htable_table.h"
#include "util/processor_check.h"

namespace {

using rocksdb::ObjectLibrary;

// "cairn.HashOrder" and everything that continues it with a colon, also nothing: what matches no name RocksDB passes
// over in option text, and leaves the option as it was.
ObjectLibrary::PatternEntry NamedWithSuffix(const char* name) {
  return ObjectLibrary::PatternEntry(name, true).AddSeparator(":", /*at_least_one=*/false);
}

// A class with a default constructor, by its name.
template <class Base, class Class, class... Arguments>
void Add(ObjectLibrary* library, const Arguments&... arguments) {
  library->AddFactory<Base>(
      Class::kClassName(),
      [arguments...](const std::string& /*name*/, std::unique_ptr<Base>* guard, std::string* /*message*/) {
        guard->reset(new Class(arguments...));
        return guard->get();
      });
}

// Comparators whose names hold what there is to know of them.
void AddOrders(ObjectLibrary* library, const char* name,
               rocksdb::Status (*from_name)(const std::string&, const rocksdb::Comparator**)) {
  library->AddFactory<const rocksdb::Comparator>(
      NamedWithSuffix(name), [from_name](const std::string& whole,
                                         std::unique_ptr<const rocksdb::Comparator>* /*guard*/, std::string* message) {
        const rocksdb::Comparator* comparator = nullptr;
        const rocksdb::Status s = from_name(whole, &comparator);
        if (!s.ok()) *message = s.ToString();
        return comparator;
      });
}

}  // namespace

extern "C" const int cairn_rocksdb_hooks;         // db/rocksdb_hooks.cc
extern "C" const int cairn_close_is_told;         // rocksdb/fixes/close_is_told.cc
extern "C" const int cairn_held_writers_recover;  // rocksdb/fixes/held_writers_recover.cc
extern "C" const int cairn_ingested_tables_stay;  // rocksdb/fixes/ingested_tables_stay.cc

extern "C" int cairn_Register(ObjectLibrary& library, const std::string& /*arg*/) {
  // Every program that links the static library takes this file from it, and with it the check of the processor and
  // what takes the place of functions of RocksDB.
  for (const int part : {cairn_processor_check, cairn_rocksdb_hooks, cairn_close_is_told, cairn_held_writers_recover,
                         cairn_ingested_tables_stay}) {
    if (part == 0) return 0;
  }
  AddOrders(&library, cairn::kHashOrderName, cairn::HashOrderComparatorFromName);
  AddOrders(&library, cairn::kPrefixOrderName, cairn::PrefixOrderFromName);
  Add<rocksdb::TableFactory, cairn::HashOrderTableFactory>(&library);
  Add<rocksdb::TableFactory, cairn::EctTableFactory>(&library);
  Add<rocksdb::TableFactory, cairn::SiltTableFactory>(&library);
  Add<rocksdb::TableFactory, cairn::OrderedTableFactory>(&library);
  library.AddFactory<rocksdb::MemTableRepFactory>(
      NamedWithSuffix(cairn::SubMemTableFactory::kClassName()),
      [](const std::string& name, std::unique_ptr<rocksdb::MemTableRepFactory>* guard, std::string* message) {
        guard->reset(new cairn::SubMemTableFactory());
        const size_t colon = name.find(':');
        if (colon != std::string::npos) {
          const rocksdb::Status s = (*guard)->ConfigureFromString(rocksdb::ConfigOptions(), name.substr(colon + 1));
          if (!s.ok()) {
            *message = s.ToString();
            guard->reset();
          }
        }
        return guard->get();
      });
  Add<rocksdb::TableFactory, cairn::HTableFactory>(&library);
  Add<rocksdb::SstPartitionerFactory, cairn::TriePartitionerFactory>(&library);
  Add<rocksdb::SstPartitionerFactory, cairn::RoundRobinPartitionerFactory>(&library);
  Add<rocksdb::EventListener, cairn::TrieListener>(&library);
  Add<rocksdb::EventListener, cairn::SiltMerges>(&library);
  Add<rocksdb::EventListener, cairn::TunerListener>(&library, cairn::TunerOptions());
  Add<rocksdb::EventListener, cairn::RoundRobinTuner>(&library);
  Add<rocksdb::EventListener, cairn::ResultCacheListener>(&library);
  Add<rocksdb::TablePropertiesCollectorFactory, cairn::KeySampleFactory>(&library);
  size_t types = 0;
  return static_cast<int>(library.GetFactoryCount(&types));
}
