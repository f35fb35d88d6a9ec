#include "framework/testing/cuda_emulation/symbols.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <vector>

namespace sluice::cuda_emulation {
namespace {

struct Function {
  uint64_t bytes;
  std::string name;
};
using Functions = std::map<uint64_t, Function>;  // by address in the file

template <typename T>
bool ReadAt(std::ifstream& file, uint64_t offset, uint64_t count, std::vector<T>* result) {
  result->resize(count);
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(result->data()),
                                     static_cast<std::streamsize>(count * sizeof(T))));
}

Functions ReadFunctions() {
  Functions functions;
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::vector<Elf64_Ehdr> header;
  std::vector<Elf64_Shdr> sections;
  if (!ReadAt(file, 0, 1, &header) ||
      !ReadAt(file, header[0].e_shoff, header[0].e_shnum, &sections)) {
    return functions;
  }
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    std::vector<Elf64_Sym> symbols;
    std::vector<char> names;
    const Elf64_Shdr& strings = sections[section.sh_link];
    if (!ReadAt(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym), &symbols) ||
        !ReadAt(file, strings.sh_offset, strings.sh_size, &names)) {
      continue;
    }
    for (const Elf64_Sym& symbol : symbols) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= names.size()) continue;
      functions[symbol.st_value] = {symbol.st_size, names.data() + symbol.st_name};
    }
  }
  return functions;
}

// Where the program was loaded; the program is the first that the callback is told of.
uint64_t LoadAddress() {
  uint64_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* result) {
        *static_cast<uint64_t*>(result) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

std::string Demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

// Cuts "void sluice::cuda::(anonymous namespace)::F<int>(float*) [clone .constprop.0]" to "F<int>".
std::string Shortened(std::string name) {
  const std::string anonymous = "(anonymous namespace)::";
  for (size_t at; (at = name.find(anonymous)) != std::string::npos;)
    name.erase(at, anonymous.size());
  int depth = 0;
  size_t begin = 0, end = name.size();
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<') ++depth;
    if (name[i] == '>') --depth;
    if (depth > 0) continue;
    if (name[i] == '(') {
      end = i;
      break;
    }
    if (name[i] == ' ' || name[i] == ':') begin = i + 1;
  }
  return name.substr(begin, end - begin);
}

}  // namespace

std::string FunctionName(const void* function) {
  static const Functions functions = ReadFunctions();
  const uint64_t address = reinterpret_cast<uint64_t>(function) - LoadAddress();
  auto found = functions.upper_bound(address);
  if (found == functions.begin()) return "?";
  --found;
  if (address - found->first >= found->second.bytes) return "?";
  return Shortened(Demangled(found->second.name));
}

}  // namespace sluice::cuda_emulation
