// SPDX-License-Identifier: BSD-3-Clause
// The reader of safetensors headers: whatever it takes is laid out without holes, the strict reader
// takes nothing that the lenient one refuses, and a header that is written from what was read says
// the same.
#include "nntile/io/safetensors_parse.hh"
#include "tests/fuzz/check.hh"

using namespace nntile::io;
using namespace nntile::test;

namespace {

/// The parts of a file; where the length word lies, all behind it is the header.
struct Image {
  std::string_view header;
  std::uint64_t data_bytes = 0;
};
Image image_of(std::string_view file) {
  if (file.size() < 8) return {file, 0};
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  std::uint64_t const rest = file.size() - 8;
  if (length > rest) return {file.substr(8), 0};
  return {file.substr(8, static_cast<std::size_t>(length)), rest - length};
}

std::vector<TensorEntry> entries_of(FileHeader const& header) {
  std::vector<TensorEntry> entries;
  for (TensorEntry const entry : header) entries.push_back(entry);
  return entries;
}

FileMetadata metadata_of(FileHeader const& header) {
  return header.metadata().as<FileMetadata>().value_or(FileMetadata());
}

bool same(FileHeader const& a, FileHeader const& b) {
  auto const equal = [](TensorEntry const& x, TensorEntry const& y) {
    return x.name == y.name && x.dtype == y.dtype && x.shape == y.shape && x.begin == y.begin &&
           x.end == y.end;
  };
  auto const x = entries_of(a), y = entries_of(b);
  return metadata_of(a) == metadata_of(b) &&  // an empty one is written as none
         std::equal(x.begin(), x.end(), y.begin(), y.end(), equal);
}

void check_layout_of(FileHeader const& header, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    TensorEntry const entry = header[i];
    must(header.find(entry.name) == i, "every tensor is found", entry.name);
    must(entry.begin == at && entry.end >= at, "no holes and no overlaps", entry.name);
    must(byte_count(entry.dtype, entry.shape) == entry.bytes(), "sizes follow", entry.name);
    must(name_problem(entry.name).empty(), "names are printable", entry.name);
    at = entry.end;
  }
  must(at == data_bytes, "the data is covered");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const [header, data_bytes] = image_of(text_of(data, size));
  FileHeader lenient, strict;
  auto const read = [&, header = header, bytes = data_bytes](FileHeader& into, Reading reading) {
    return reads([&] { into = parse_header(std::string(header), bytes, "source", reading); });
  };
  bool const taken = read(lenient, Reading::lenient);
  if (read(strict, Reading::strict)) {
    must(taken && same(strict, lenient), "what strict reading takes, lenient takes");
    std::string const written = header_text(entries_of(strict), metadata_of(strict));
    must(same(parse_header(written.substr(8), data_bytes, "written"), strict),
         "what was read is written", written);
  }
  if (taken) check_layout_of(lenient, data_bytes);
  return 0;
}
