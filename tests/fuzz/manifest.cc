// SPDX-License-Identifier: BSD-3-Clause
// The reader of a checkpoint's manifest, past its checksum: the input is what stands behind that,
// and gets one that fits. What is read is written and read back unchanged.
#include <optional>

#include "nntile/io/manifest_parse.hh"
#include "tests/fuzz/check.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

/// The same as values of their own.
Manifest copy_of(ManifestText const& text) {
  SavedState const saved = text.state();
  Manifest manifest{to_json(text.model()), {}, text.files(), {}};
  static_cast<Progress&>(manifest.state) = saved;
  manifest.state.optimizer = *saved.optimizer.as<std::map<std::string, double>>();
  manifest.state.run = to_json(saved.run);
  for (std::size_t i = 0; i < text.size(); ++i) manifest.tensors.push_back(text[i]);
  for (std::size_t i = 0; i < text.cut_size(); ++i) manifest.cut.push_back(text.cut(i));
  return manifest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const body = text_of(data, size);
  must(!reads([&] { ManifestText(std::string(body), "source"); }), "no text is its own checksum");
  std::string const text = concat(io::detail::manifest_opening, to_hex(hash64(body)),
                                  io::detail::manifest_after_checksum, body);
  std::optional<ManifestText> read;
  if (!reads([&] { read.emplace(text, "source"); })) return 0;
  std::string const written = manifest_text(copy_of(*read));
  must(manifest_text(copy_of(ManifestText(written, "written"))) == written,
       "what was read is written", written);
  for (FileRecord const& file : read->files())
    must(is_rank_file(file.name, checkpoint_file_of("")) ||
             is_rank_file(file.name, checkpoint_file_of(optimizer_prefix)),
         "files are those of a checkpoint", file.name);
  for (std::size_t i = 0; i < read->size(); ++i)
    must(read->find((*read)[i].name).has_value(), "each tensor is found", (*read)[i].name);
  return 0;
}
