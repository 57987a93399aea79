// RocksDB calls this once, from its plugin list, when the object registry is first used.

#include <memory>
#include <string>

#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/listener.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/object_registry.h"
#include "src/database_cache/result_cache_listener.h"
#include "src/ect/ect_table.h"
#include "src/ect/hash_order_table.h"
#include "src/hash_order/hash_order.h"
#include "src/htable/htable_table.h"
#include "src/memtable/sub_memtable_factory.h"
#include "src/ordered/ordered_table.h"
#include "src/processor/processor_check.h"
#include "src/silt/silt_merges.h"
#include "src/trie/trie_listener.h"
#include "src/trie/trie_partitioner.h"
#include "src/tuner/key_sample.h"
#include "src/tuner/tuner.h"

namespace {

using rocksdb::ObjectLibrary;

// "cairn.HashOrder" and everything that continues it with a colon.
ObjectLibrary::PatternEntry NamedWithSuffix(const char* name) {
  return ObjectLibrary::PatternEntry(name, true).AddSeparator(":");
}

}  // namespace

extern "C" const int cairn_rocksdb_hooks;  // src/db/rocksdb_hooks.cc

extern "C" int cairn_Register(ObjectLibrary& library, const std::string& /*arg*/) {
  // Every program that links the static library takes this file from it, and with it the check of the processor and
  // what takes the place of functions of RocksDB.
  if (cairn_processor_check == 0 || cairn_rocksdb_hooks == 0) return 0;
  library.AddFactory<const rocksdb::Comparator>(
      NamedWithSuffix(cairn::kHashOrderName),
      [](const std::string& name, std::unique_ptr<const rocksdb::Comparator>* /*guard*/, std::string* message) {
        const rocksdb::Comparator* comparator = nullptr;
        const rocksdb::Status s = cairn::HashOrderComparatorFromName(name, &comparator);
        if (!s.ok()) *message = s.ToString();
        return comparator;
      });
  library.AddFactory<rocksdb::TableFactory>(
      cairn::HashOrderTableFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::TableFactory>* guard, std::string* /*message*/) {
        guard->reset(new cairn::HashOrderTableFactory());
        return guard->get();
      });
  library.AddFactory<rocksdb::TableFactory>(
      cairn::EctTableFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::TableFactory>* guard, std::string* /*message*/) {
        guard->reset(new cairn::EctTableFactory());
        return guard->get();
      });
  library.AddFactory<rocksdb::TableFactory>(
      cairn::OrderedTableFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::TableFactory>* guard, std::string* /*message*/) {
        guard->reset(new cairn::OrderedTableFactory());
        return guard->get();
      });
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
  library.AddFactory<rocksdb::TableFactory>(
      cairn::HTableFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::TableFactory>* guard, std::string* /*message*/) {
        guard->reset(new cairn::HTableFactory());
        return guard->get();
      });
  library.AddFactory<rocksdb::SstPartitionerFactory>(
      cairn::TriePartitionerFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::SstPartitionerFactory>* guard,
         std::string* /*message*/) {
        guard->reset(new cairn::TriePartitionerFactory());
        return guard->get();
      });
  library.AddFactory<rocksdb::EventListener>(
      cairn::TrieListener::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::EventListener>* guard, std::string* /*message*/) {
        guard->reset(new cairn::TrieListener());
        return guard->get();
      });
  library.AddFactory<rocksdb::EventListener>(
      cairn::SiltMerges::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::EventListener>* guard, std::string* /*message*/) {
        guard->reset(new cairn::SiltMerges());
        return guard->get();
      });
  library.AddFactory<rocksdb::EventListener>(
      cairn::TunerListener::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::EventListener>* guard, std::string* /*message*/) {
        guard->reset(new cairn::TunerListener(cairn::TunerOptions()));
        return guard->get();
      });
  library.AddFactory<rocksdb::EventListener>(
      cairn::ResultCacheListener::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::EventListener>* guard, std::string* /*message*/) {
        guard->reset(new cairn::ResultCacheListener());
        return guard->get();
      });
  library.AddFactory<rocksdb::TablePropertiesCollectorFactory>(
      cairn::KeySampleFactory::kClassName(),
      [](const std::string& /*name*/, std::unique_ptr<rocksdb::TablePropertiesCollectorFactory>* guard,
         std::string* /*message*/) {
        guard->reset(new cairn::KeySampleFactory());
        return guard->get();
      });
  size_t types = 0;
  return static_cast<int>(library.GetFactoryCount(&types));
}
