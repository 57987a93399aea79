// The whole content of librocksdb.so.9, which needs librocksdb.so.9.10 (CairnModules.cmake says why).
extern const int cairn_second_name_of_the_library;
const int cairn_second_name_of_the_library = 1;
