/* SPDX-License-Identifier: BSD-3-Clause
 * Runs an orchestration function that a shared object brings: see --help. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

static char const usage[] =
    "usage: pto_run [--workers N] [--times N] FILE...\n"
    "Runs the orchestration function of each shared object FILE, and checks what comes out.\n"
    "FILE exports `program`, as examples/pto/program.h says, and has its calls from this program.\n"
    "  --workers N   threads that execute tasks, 1 to 1,024 (default: one a core)\n"
    "  --times N     runs of each, 1 to 1,000,000 (default: 1)\n"
    "  --help        prints this\n"
    "Exit status: 0 if all was right, 1 if something was wrong, 2 for words that are not understood.\n";

static int misused(char const* text, char const* word) {
  fprintf(stderr, "pto_run: %s '%s'; see pto_run --help\n", text, word);
  return 2;
}

/* The number after an option; 0: there is none from 1 to `most`. */
static int32_t number(char const* word, int32_t most) {
  char* end = NULL;
  long const value = word != NULL ? strtol(word, &end, 10) : 0;
  return end != NULL && end != word && *end == 0 && value >= 1 && value <= most ? (int32_t)value : 0;
}

static int run_file(char const* file, int32_t workers, int32_t times) {
  void* object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (object == NULL) {
    fprintf(stderr, "pto_run: %s (a file here is ./FILE)\n", dlerror());
    return 1;
  }
  Program const* program = dlsym(object, "program");
  int status = 0;
  if (program == NULL) {
    fprintf(stderr, "pto_run: %s exports no `program`: see examples/pto/program.h\n", file);
    status = 1;
  }
  for (int32_t i = 0; status == 0 && i < times; ++i) status = run_program(program, workers);
  dlclose(object);
  return status;
}

int main(int count, char** words) {
  int32_t workers = 0, times = 1, files = 0;
  for (int i = 1; i < count; ++i) {
    if (strcmp(words[i], "--help") == 0) {
      fputs(usage, stdout);
      return 0;
    }
    int const is_workers = strcmp(words[i], "--workers") == 0;
    if (is_workers || strcmp(words[i], "--times") == 0) {
      int32_t const value = number(words[i + 1], is_workers ? 1024 : 1000000);
      if (value == 0) return misused("no such number:", words[i + 1] != NULL ? words[i + 1] : "");
      *(is_workers ? &workers : &times) = value;
      ++i;
    } else if (words[i][0] == '-') {
      return misused("no option is", words[i]);
    } else {
      words[++files] = words[i];
    }
  }
  if (files == 0) return misused("FILE is missing after", words[count - 1]);
  int status = 0;
  for (int i = 1; i <= files; ++i) status |= run_file(words[i], workers, times);
  return status;
}
