// Of which class is an object that an application may have brought? It may have been compiled without RTTI, and then a
// dynamic_cast on it ends the process. So there is none on such objects in Cairn, only these two questions.
//
// Thread-safety: functions without state.

#pragma once

#include <cstring>

namespace cairn {

// By the name that a Customizable gives itself; null: another class. Unlike Customizable::CheckedCast, does not look
// into what the object wraps.
template <class T, class Base>
T* AsInstanceOf(Base* object) {
  return object != nullptr && object->IsInstanceOf(T::kClassName()) ? static_cast<T*>(object) : nullptr;
}

// Of RocksDB's own classes that have no name: by the table of virtual functions, in which compilers of the Itanium C++
// ABI keep an object's class first. `example` is of exactly the class that is asked for. Null also for a class that is
// derived from it, or is there twice (in a program that has RocksDB linked statically besides).
template <class T, class Base>
T* AsSameClassAs(T* example, Base* object) {
  return memcmp(static_cast<const void*>(example), static_cast<const void*>(object), sizeof(void*)) == 0
             ? static_cast<T*>(object)
             : nullptr;
}

}  // namespace cairn
