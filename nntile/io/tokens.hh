#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Text as byte tokens: what is kept for validation, and which window a sample is.

#include <algorithm>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/tiling.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/hash.hh"

namespace nntile::io {

namespace detail {
__extension__ typedef unsigned __int128 Wide;  // for one product of 64-bit numbers
}

/// A text whose bytes are tokens. The last twentieth (at least one window) is for validation, the
/// rest for training. A window is `sequence` tokens and the one after each: labels are the tokens
/// shifted by one.
class Corpus {
 public:
  static constexpr std::size_t longest_sequence = std::size_t{1}
                                                  << 40;  // two windows are countable

  /// Reads files and joins them in the given order. Throws ValueError when none is given, Error
  /// when one cannot be read, FormatError when one is empty or all are too short, OutOfMemory when
  /// they have more than `most` bytes: that before anything is allocated.
  static Corpus open(std::vector<std::string> const& paths, std::size_t sequence,
                     std::uint64_t most = std::string().max_size(), Fault const* fault = nullptr) {
    if (paths.empty()) throw ValueError("no text: name at least one file");
    std::string const name =
        paths.size() == 1 ? path_in_quotes(paths.front()) : concat(paths.size(), " files");
    std::vector<std::uint64_t> ends;  // of each file's bytes
    std::string text;
    try {
      std::uint64_t bytes = 0;
      for (std::string const& path : paths) {  // of many, one is open at a time
        std::uint64_t const size = File::open(path, fault).size();
        if (size == 0)
          throw FormatError(concat(path_in_quotes(path), " is empty; name a file with text"));
        if (size > most - bytes)
          throw OutOfMemory(concat(path_in_quotes(path), " has ", size, " bytes where ",
                                   most - bytes, " fit in memory; name a smaller text"));
        ends.push_back(bytes += size);
      }
      text.resize(bytes);
    } catch (std::bad_alloc const&) {
      throw OutOfMemory(concat("no memory for the text of ", name, "; name a smaller one"));
    }
    auto const all = std::as_writable_bytes(std::span(text.data(), text.size()));
    for (std::size_t i = 0; i < paths.size(); ++i) {
      std::uint64_t const begin = i == 0 ? 0 : ends[i - 1];
      File::open(paths[i], fault).read_at(0, all.subspan(begin, ends[i] - begin));
    }
    return Corpus(std::move(text), sequence, name);
  }

  /// A text that is in memory; `name` is what errors call it.
  Corpus(std::string text, std::size_t sequence, std::string name = "text")
      : text_(std::move(text)), name_(std::move(name)), sequence_(sequence) {
    if (sequence_ == 0 || sequence_ > longest_sequence)
      throw ValueError(concat("sequence of ", sequence_, " tokens; 1 to ", longest_sequence));
    std::size_t const window = sequence_ + 1;
    if (text_.size() < 2 * window)
      throw FormatError(concat(name_, ": ", text_.size(), " bytes where sequences of ", sequence_,
                               " need ", 2 * window, " (", window, " to train on and ", window,
                               " to validate on); give more text or a shorter sequence"));
    train_bytes_ = text_.size() - std::max(text_.size() / 20, window);
  }

  std::size_t sequence() const { return sequence_; }
  std::string_view train() const { return std::string_view(text_).substr(0, train_bytes_); }
  std::string_view validation() const { return std::string_view(text_).substr(train_bytes_); }
  /// Of all bytes: a resumed run compares it, because another text would not give the same bits.
  std::uint64_t hash() const { return hash64(text_); }
  /// "'bible.txt'", or "2 files".
  std::string const& name() const { return name_; }
  /// "'bible.txt': 4345020 bytes, 4127769 to train on, 217251 to validate on".
  std::string describe() const {
    return concat(name_, ": ", text_.size(), " bytes, ", train_bytes_, " to train on, ",
                  validation().size(), " to validate on");
  }

  /// Offset of sample number `sample` in train(): the XXH64 of the eight bytes of `seed` and the
  /// eight of `sample`, as a fraction of 2^64 of the positions there are. So the position in the
  /// data is one number, and any worker or rank finds its samples without the others.
  std::uint64_t position(std::uint64_t seed, std::uint64_t sample) const {
    Hash64 hash;
    hash.update(seed);
    hash.update(sample);
    auto const positions = static_cast<detail::Wide>(train_bytes_ - sequence_);
    return static_cast<std::uint64_t>((static_cast<detail::Wide>(hash.digest()) * positions) >> 64);
  }

  /// Samples `sample` to `sample + batch - 1`. Both lists become {s, b}: one window after another.
  /// Throws ValueError, as all that fill lists, where the number of tokens exceeds the largest size
  /// of a list.
  void train_batch(std::uint64_t sample, std::size_t batch, std::uint64_t seed,
                   std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& labels) const {
    prepare(batch, tokens, labels);
    for (std::size_t b = 0; b < batch; ++b)
      put_window(train().substr(position(seed, sample + b)), b, sequence_, tokens, labels);
  }

  /// The part of that batch in one tile of it, {s, b} from box.begin on: across ranks each needs
  /// those that its store holds("tokens", tile), and hands them over by write_tile.
  void train_tile(std::uint64_t sample, TileBox const& box, std::uint64_t seed,
                  std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& labels) const {
    put_tile("train_tile", box, SIZE_MAX, tokens, labels,
             [&](std::size_t b) { return train().substr(position(seed, sample + b)); });
  }

  /// Windows of validation() that do not overlap.
  std::size_t validation_windows() const { return (validation().size() - 1) / sequence_; }
  /// Batches that hold all of them but a remainder; at least 1.
  std::size_t validation_batches(std::size_t batch) const {
    return std::max<std::size_t>(1, validation_windows() / std::max<std::size_t>(1, batch));
  }
  /// Batch number `index` of `batches`, which together are spread evenly over validation(). Throws
  /// ValueError where there is none of that number, or they are too many to be counted, as
  /// validation_tile does.
  void validation_batch(std::size_t index, std::size_t batches, std::size_t batch,
                        std::vector<std::int64_t>& tokens,
                        std::vector<std::int64_t>& labels) const {
    check_batch("validation_batch", index, batches, batch);
    prepare(batch, tokens, labels);
    for (std::size_t b = 0; b < batch; ++b)
      put_window(validation_window(index * batch + b, batches * batch), b, sequence_, tokens,
                 labels);
  }
  /// The part of that batch in one tile of it.
  void validation_tile(std::size_t index, std::size_t batches, std::size_t batch,
                       TileBox const& box, std::vector<std::int64_t>& tokens,
                       std::vector<std::int64_t>& labels) const {
    check_batch("validation_tile", index, batches, batch);
    put_tile("validation_tile", box, batch, tokens, labels,
             [&](std::size_t b) { return validation_window(index * batch + b, batches * batch); });
  }

 private:
  void check_batch(char const* call, std::size_t index, std::size_t batches,
                   std::size_t batch) const {
    if (index >= batches)
      throw ValueError(concat(call, ": there is no batch ", index, " of ", batches,
                              "; they are counted from 0"));
    if (batch != 0 && batches > SIZE_MAX / batch / validation_windows())
      throw ValueError(concat(call, ": ", batches, " batches of ", batch,
                              " sequences are more than can be counted; validation_batches(", batch,
                              ") is ", validation_batches(batch)));
  }

  void prepare(std::size_t batch, std::vector<std::int64_t>& tokens,
               std::vector<std::int64_t>& labels) const {
    resize(sequence_, batch, tokens, labels);
  }
  static void resize(std::size_t rows, std::size_t columns, std::vector<std::int64_t>& tokens,
                     std::vector<std::int64_t>& labels) {
    if (rows != 0 && columns > tokens.max_size() / rows)
      throw ValueError(concat("a batch of ", columns, " sequences of ", rows,
                              " tokens: no memory holds so many; make it smaller"));
    tokens.resize(rows * columns);
    labels.resize(rows * columns);
  }

  /// Window number `window` of `windows`, and what is behind it.
  std::string_view validation_window(std::size_t window, std::size_t windows) const {
    return validation().substr(window * validation_windows() / windows * sequence_);
  }

  /// A tile of the batch whose column b is at the front of window(b).
  template <class Window>
  void put_tile(char const* call, TileBox const& box, std::size_t batch,
                std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& labels,
                Window window) const {
    auto const within = [&](std::size_t d, std::size_t size) {
      return box.begin[d] >= 0 && box.extent[d] >= 0 &&
             static_cast<std::size_t>(box.begin[d]) + static_cast<std::size_t>(box.extent[d]) <=
                 size;
    };
    if (box.extent.size() != 2 || box.begin.size() != 2 || !within(0, sequence_) ||
        !within(1, batch))
      throw ShapeError(concat(call, ": ", to_string(box.extent), " from ", to_string(box.begin),
                              " is no tile of a batch of ", sequence_, " tokens"));
    auto const row = static_cast<std::size_t>(box.begin[0]);
    auto const column = static_cast<std::size_t>(box.begin[1]);
    auto const rows = static_cast<std::size_t>(box.extent[0]);
    auto const columns = static_cast<std::size_t>(box.extent[1]);
    resize(rows, columns, tokens, labels);
    for (std::size_t b = 0; rows > 0 && b < columns; ++b)  // none may be of any number of columns
      put_window(window(column + b).substr(row), b, rows, tokens, labels);
  }

  /// Column b of both lists, of `rows`, from the front of `text`.
  static void put_window(std::string_view text, std::size_t b, std::size_t rows,
                         std::vector<std::int64_t>& tokens, std::vector<std::int64_t>& labels) {
    for (std::size_t s = 0; s < rows; ++s) {
      tokens[b * rows + s] = static_cast<unsigned char>(text[s]);
      labels[b * rows + s] = static_cast<unsigned char>(text[s + 1]);
    }
  }

  std::string text_;
  std::string name_;
  std::size_t sequence_;
  std::size_t train_bytes_ = 0;
};

}  // namespace nntile::io
