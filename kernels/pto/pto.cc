// SPDX-License-Identifier: BSD-3-Clause
// The C symbols of nntile/runtime/ring/pto.h. No exception leaves them.

#include "nntile/runtime/ring/pto.hh"

#include <cstdint>

namespace {

using Pto = nntile::PtoRuntime<>;
using nntile::detail::pto::describe_current;
using nntile::detail::pto::FirstError;

FirstError& errors(Runtime* rt) { return static_cast<Pto*>(rt)->first_error(); }

/// Calls `call` of the runtime; gives its PtoCode.
template <class Call> std::int32_t attempt(Runtime* rt, Call call) noexcept {
  if (rt == nullptr) return PTO_NO_RUNTIME;
  try {
    call(*static_cast<Pto*>(rt));
    return PTO_OK;
  } catch (...) {
    return errors(rt).note_current();
  }
}
/// The same for a call that gives a number that is not negative; or minus a PtoCode.
template <class Call> std::int32_t number(Runtime* rt, Call call) noexcept {
  std::int32_t result = 0;
  std::int32_t const code = attempt(rt, [&](Pto& pto) { result = call(pto); });
  return code == PTO_OK ? result : -code;
}

}  // namespace

extern "C" {

void* pto_alloc(Runtime* rt, size_t size) {
  void* result = nullptr;
  (void)attempt(rt, [&](Pto& pto) { result = pto.alloc(size); });
  return result;
}
void pto_free(Runtime* rt, void* buffer) {
  (void)attempt(rt, [=](Pto& pto) { pto.free(buffer); });
}
void pto_scope_begin(Runtime* rt) {
  (void)attempt(rt, [](Pto& pto) { pto.scope_begin(); });
}
int32_t pto_submit_task(Runtime* rt, int32_t kernel_id, int32_t worker_type, TaskParam* params,
                        int32_t num_params) {
  return number(
      rt, [=](Pto& pto) { return pto.submit_task(kernel_id, worker_type, params, num_params); });
}
void pto_scope_end(Runtime* rt) {
  (void)attempt(rt, [](Pto& pto) { pto.scope_end(); });
}
void pto_task_complete(Runtime* rt, int32_t task_id) {
  (void)attempt(rt, [=](Pto& pto) { pto.task_complete(task_id); });
}
int32_t pto_task_fail(Runtime* rt, int32_t task_id, int32_t code, char const* message) {
  return attempt(rt, [=](Pto& pto) { pto.task_fail(task_id, code, message); });
}

int32_t pto_register_kernel(Runtime* rt, int32_t kernel_id, char const* name, PtoKernel kernel,
                            void* context) {
  return attempt(rt,
                 [=](Pto& pto) { pto.register_kernel(kernel_id, name, kernel, context, false); });
}
int32_t pto_register_async_kernel(Runtime* rt, int32_t kernel_id, char const* name,
                                  PtoKernel kernel, void* context) {
  return attempt(rt,
                 [=](Pto& pto) { pto.register_kernel(kernel_id, name, kernel, context, true); });
}

Runtime* pto_create(PtoOptions const* options, PtoError* error) {
  PtoError result{};
  Pto* made = nullptr;
  try {
    made = new Pto(options != nullptr ? *options : PtoOptions{});
  } catch (...) {
    describe_current(result);
  }
  if (error != nullptr) *error = result;
  return made;
}
int32_t pto_destroy(Runtime* rt) {
  std::int32_t const code = attempt(rt, [](Pto& pto) { pto.check_destroy(); });
  if (code == PTO_OK) delete static_cast<Pto*>(rt);
  return code;
}
int32_t pto_adopt(Runtime* rt, void* base, size_t size) {
  return attempt(rt, [=](Pto& pto) { pto.adopt(base, size); });
}
int32_t pto_wait(Runtime* rt, int32_t task_id) {
  return attempt(rt, [=](Pto& pto) { pto.wait(task_id); });
}
int32_t pto_wait_all(Runtime* rt) {
  return attempt(rt, [](Pto& pto) { pto.wait_all(); });
}

int32_t pto_task_state(Runtime* rt, int32_t task_id) {
  return number(rt, [=](Pto& pto) { return pto.task_state(task_id); });
}
char const* pto_state_name(int32_t state) {
  constexpr char const* names[] = {"PENDING", "READY", "RUNNING", "COMPLETED", "CONSUMED"};
  return state >= PTO_TASK_PENDING && state <= PTO_TASK_CONSUMED ? names[state] : "?";
}

int32_t pto_last_error(Runtime* rt) { return rt != nullptr ? errors(rt).code() : PTO_NO_RUNTIME; }
char const* pto_error_message(Runtime* rt) {
  return rt != nullptr ? errors(rt).message() : "the runtime is NULL";
}
void pto_clear_error(Runtime* rt) {
  if (rt != nullptr) errors(rt).clear();
}
char const* pto_code_name(int32_t code) { return nntile::detail::pto::name_of_code(code); }

}  // extern "C"
