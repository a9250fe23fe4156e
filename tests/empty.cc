// SPDX-License-Identifier: BSD-3-Clause
// Includes nothing: parse.py has headers included before it.
