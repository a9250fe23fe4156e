// SPDX-License-Identifier: BSD-3-Clause
// The reader of a checkpoint's manifest, past its checksum: the input is what stands behind that,
// and gets one that fits. What is read is written and read back unchanged.
#include "nntile/io/manifest.hh"
#include "tests/fuzz/check.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const body = text_of(data, size);
  must(!reads([&] { parse_manifest(body, "source"); }), "no text is its own checksum");
  std::string const text = concat(io::detail::manifest_opening, to_hex(hash64(body)),
                                  io::detail::manifest_after_checksum, body);
  Manifest manifest;
  if (!reads([&] { manifest = parse_manifest(text, "source"); })) return 0;
  std::string const written = manifest_text(manifest);
  must(manifest_text(parse_manifest(written, "written")) == written, "what was read is written",
       written);
  for (FileRecord const& file : manifest.files)
    must(is_basename(file.name), "files are beside the manifest", file.name);
  return 0;
}
