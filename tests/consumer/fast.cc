// SPDX-License-Identifier: BSD-3-Clause
// A program that asks for fast numerics: the vendor's library is loaded then, and not before.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <nntile/nntile.hh>

namespace {

bool vendor_is_loaded() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    for (char const* const name : {"libdnnl", "libopenblas", "libblis"})
      if (line.find(name) != std::string::npos) return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace nntile;
  std::string const expected = argc == 2 ? argv[1] : "exact";  // or loaded, or built-in
  auto const find = [](Mode mode) {
    return kernels::find("gemm", DType::fp32, DType::fp32, mode, Isa::best);
  };
  Codelet const* const exact = find(Mode::exact);
  bool const loaded_early = vendor_is_loaded();
  Codelet const* const fast = find(Mode::fast);
  std::printf("vendor loaded before: %d, after: %d; fast is %s\n", loaded_early, vendor_is_loaded(),
              fast == exact ? "exact" : "the vendor's");
  if (loaded_early || vendor_is_loaded() != (expected == "loaded")) return 1;
  if ((fast == exact) != (expected == "exact")) return 1;

  std::vector<float> a(64 * 64, 0.5f), b(64 * 64, 2.0f), c(64 * 64);
  Arguments<ops::Gemm> call{{},
                            {ops::Gemm::Operand::a, ops::Gemm::Operand::b, ops::Gemm::Operand::c}};
  ops::Gemm::Args& args = call.args;
  args.m = args.n = args.k = args.lda = args.ldb = args.ldc = 64;
  args.batch = 1, args.alpha = 1;
  void* const buffers[] = {a.data(), b.data(), c.data()};
  support::Workspaces const workspaces(1);
  char text[status_text_bytes];
  if (!fast->cpu({buffers, &call, text, workspaces[0]}).ok()) return 2;
  for (float const value : c)
    if (std::fabs(value - 64.0f) > 1e-3f) return 3;
  return 0;
}
