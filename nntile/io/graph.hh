#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Graphs in files: JSON with a version, ops and their attributes by name.

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/dtype.hh"
#include "nntile/graph/gradient_builder.hh"
#include "nntile/graph/spelling.hh"
#include "nntile/io/directory.hh"
#include "nntile/io/json.hh"
#include "nntile/io/json_text.hh"
#include "nntile/io/quotes.hh"

namespace nntile::io {

inline constexpr int graph_version = 1;
/// Bytes of a graph or plan in a file, at most.
inline constexpr std::uint64_t largest_graph_file = std::uint64_t{1} << 30;

/// An op that a file may name, and its gradient.
struct KnownOp {
  OpInfo const* info;
  void (*gradient)(GradientBuilder&);
};

namespace detail {

/// Throws ValueError where a graph or plan makes a larger file than is read.
inline void check_graph_file(std::string const& path, std::uint64_t bytes) {
  if (bytes > largest_graph_file)
    throw ValueError(concat(path_in_quotes(path), " would have ", bytes, " bytes where at most ",
                            largest_graph_file, " are read; plan with larger tiles, or plan anew ",
                            "in place of loading"));
}
inline void write_graph_file(std::string const& path, std::string_view text) {
  check_graph_file(path, text.size());
  write_file(path, text);
}

/// The dtype of that name, if there is one.
inline std::optional<DType> dtype_named(std::string_view name) {
  for (DType const dtype : all_dtypes)
    if (name == name_of(dtype)) return dtype;
  return std::nullopt;
}

inline void append(std::vector<KnownOp>& ops, KnownOp const& op) {
  std::string_view const name = op.info->name;
  for (KnownOp const& other : ops)
    if (other.info != op.info && name == other.info->name)
      throw ValueError(concat("known_ops: two ops have the name '", name,
                              "', by which files know them; give one of them another"));
  ops.push_back(op);
}
template <OpStruct... Ops> void append(std::vector<KnownOp>& ops, OpList<Ops...>) {
  (append(ops, {&op_info<Ops>, nntile::detail::gradient_of<Ops>()}), ...);
}

}  // namespace detail

/// The ops of lists: known_ops(AllOps{}, OpList<MyOp>{}) with nntile/ops/all.hh, or the lists of
/// the headers of a few. Throws ValueError for two ops of one name.
template <class... Lists> std::vector<KnownOp> known_ops(Lists... lists) {
  std::vector<KnownOp> ops;
  (detail::append(ops, lists), ...);
  return ops;
}

namespace detail {

inline Json json_of(Shape const& shape) {
  Json result = Json::array();
  for (Index const extent : shape) result.push_back(extent);
  return result;
}

inline Json json_of(Dims const& dims) {
  Json result = Json::array();
  for (Dim const& dim : dims) result.push_back(dim.open() ? Json(dim.name()) : Json(Index{dim}));
  return result;
}

/// JSON has no number for those that are not finite.
inline Json json_of_real(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

inline Json json_of_attrs(OpNode const& op) {
  Json result = Json::object();
  for (Field const& field : *op.info->fields) {
    FieldValue const value = field.get(op.attrs.data());
    switch (value.kind) {
      case FieldKind::boolean:
        result[field.name] = value.integer != 0;
        break;
      case FieldKind::integer:
        result[field.name] = value.integer;
        break;
      case FieldKind::natural:
        result[field.name] = value.natural;
        break;
      case FieldKind::real:
        result[field.name] = json_of_real(value.real);
        break;
    }
  }
  return result;
}

inline Json json_of_tensor(LogicalGraph const& graph, TensorNode const& node) {
  Json result = Json::object({{"name", node.name}});
  if (node.base != no_id) {
    result["base"] = graph.tensor_at(node.base).name;
    result["axis"] = node.view_axis;
    result["index"] = node.view_index;
    return result;
  }
  result["dtype"] = name_of(node.spec.dtype);
  result["shape"] = json_of(node.spec.shape);
  if (!node.spec.axes.empty()) result["axes"] = node.spec.axes;
  if (!node.spec.file_shape.empty()) result["file_shape"] = json_of(node.spec.file_shape);
  if (node.attributes.requires_grad) result["requires_grad"] = true;
  if (node.attributes.persistent) result["persistent"] = true;
  if (node.attributes.external) result["external"] = true;
  if (node.attributes.output) result["output"] = true;
  return result;
}

/// Reads the members of a file's objects; what is wrong is a FormatError that names file and place.
class GraphReader {
 public:
  GraphReader(JsonView root, std::string_view source, std::span<KnownOp const> ops)
      : root_(root), source_(source), ops_(ops) {}

  std::unique_ptr<LogicalGraph> read() const {
    auto graph = std::make_unique<LogicalGraph>(get<std::string>(root_, "name"), numerics());
    for (std::string const& phase : get<std::vector<std::string>>(root_, "phases"))
      graph->set_phase(phase);
    if (get_or(root_, "phases_apart", false)) graph->keep_phases_apart();
    std::size_t number = 0;
    for (JsonView const tensor : list(root_, "tensors")) add_tensor(*graph, tensor, number++);
    number = 0;
    for (JsonView const op : list(root_, "ops")) add_op(*graph, op, number++);
    check_members(
        root_, "a graph",
        {"format", "version", "name", "numerics", "phases", "phases_apart", "tensors", "ops"});
    return graph;
  }

 private:
  template <class... Text> [[noreturn]] void fail(Text const&... text) const {
    throw FormatError(concat(path_in_quotes(source_), ": ", text...));
  }
  template <class T> T get(JsonView object, std::string_view key) const {
    return json_field<T>(object, key, source_);
  }
  JsonView get(JsonView object, std::string_view key, JsonKind kind) const {
    return json_field(object, key, source_, kind);
  }
  JsonList<JsonView> list(JsonView object, std::string_view key) const {
    return get(object, key, JsonKind::array).elements();
  }
  template <class T> T get_or(JsonView object, std::string_view key, T otherwise) const {
    return object.find(key) ? get<T>(object, key) : otherwise;
  }

  /// A member that is misspelt would be left out without a word.
  void check_members(JsonView object, std::string_view of,
                     std::initializer_list<std::string_view> known) const {
    for (JsonMember const& member : object.members())
      if (std::string const key = member.key.text();
          std::find(known.begin(), known.end(), key) == known.end())
        fail(of, " has no ", in_quotes(key),
             did_you_mean(key, DynamicArray<std::string_view>(known)));
  }

  Numerics numerics() const {
    JsonView const given = get(root_, "numerics", JsonKind::object);
    check_members(given, "numerics", {"mode", "groups"});
    auto const mode = get<std::string>(given, "mode");
    if (mode != name_of(Mode::exact) && mode != name_of(Mode::fast))
      fail("numerics ", in_quotes(mode), " where exact and fast are known");
    Numerics result{mode == name_of(Mode::fast) ? Mode::fast : Mode::exact};
    if (!given.find("groups")) return result;
    JsonView const groups = get(given, "groups", JsonKind::object);
    for (JsonMember const& axis : groups.members()) {
      std::string const name = axis.key.text();
      result.groups.push_back({name, json_value<int>(axis.value, name, source_)});
    }
    return result;
  }

  DType dtype(std::string const& name) const {
    if (auto const dtype = dtype_named(name)) return *dtype;
    fail("dtype ", in_quotes(name), " is unknown");
  }
  Shape shape(JsonView tensor, std::string_view key) const {
    Shape result;
    auto const extents = get<std::vector<Index>>(tensor, key);
    if (extents.size() > max_rank)
      fail(key, " of ", extents.size(), " dimensions where at most ", max_rank, " are read");
    for (Index const extent : extents) result.push_back(extent);
    return result;
  }

  /// The same, open dimensions as names: [512, "seq"].
  Dims dims(JsonView tensor, std::string_view key) const {
    Dims result;
    auto const extents = get<std::vector<JsonView>>(tensor, key);
    if (extents.size() > max_rank)
      fail(key, " of ", extents.size(), " dimensions where at most ", max_rank, " are read");
    for (JsonView const extent : extents) {
      auto const number = extent.as<Index>();
      if (!number && !extent.is_string()) fail(key, " has a dimension of ", extent.shown());
      result.push_back(number ? Dim(*number) : Dim(*extent.as<std::string>()));
    }
    return result;
  }

  void add_tensor(LogicalGraph& graph, JsonView tensor, std::size_t number) const {
    auto const name = get<std::string>(tensor, "name");
    if (graph.find(name)) fail("tensor ", number, ", ", in_quotes(name), ", comes twice");
    if (tensor.find("base")) {
      check_members(tensor, "a view", {"name", "base", "axis", "index"});
      (void)graph.slice(graph.at(get<std::string>(tensor, "base")),
                        get<std::size_t>(tensor, "axis"), get<Index>(tensor, "index"), name);
      return;
    }
    check_members(tensor, "a tensor",
                  {"name", "dtype", "shape", "axes", "file_shape", "requires_grad", "persistent",
                   "external", "output"});
    nntile::TensorSpec spec{.shape = dims(tensor, "shape"),
                            .dtype = dtype(get<std::string>(tensor, "dtype")),
                            .axes = get_or<std::string>(tensor, "axes", {})};
    if (tensor.find("file_shape")) spec.file_shape = shape(tensor, "file_shape");
    (void)graph.tensor(std::move(spec), name,
                       {.requires_grad = get_or(tensor, "requires_grad", false),
                        .persistent = get_or(tensor, "persistent", false),
                        .external = get_or(tensor, "external", false),
                        .output = get_or(tensor, "output", false)});
  }

  KnownOp const& known(std::string const& name, std::size_t number) const {
    auto const at = std::find_if(ops_.begin(), ops_.end(),
                                 [&](KnownOp const& op) { return name == op.info->name; });
    if (at != ops_.end()) return *at;
    DynamicArray<std::string_view> names;
    for (KnownOp const& op : ops_) names.push_back(op.info->name);
    std::string const near = did_you_mean(name, names);
    fail("op ", number, " is ", in_quotes(name), ", which is not among the ", ops_.size(),
         " known here", near.empty() ? "; give its list to known_ops()" : near);
  }

  FieldValue value(JsonView given, Field const& field, std::string_view op) const {
    FieldValue result;
    result.kind = field.kind;
    auto const set = [&](auto& to, auto const& from) {
      if (!from) fail("attribute ", field.name, " of ", op, " is ", given.shown());
      to = *from;
    };
    switch (field.kind) {
      case FieldKind::boolean:
        set(result.integer, given.as<bool>());
        break;
      case FieldKind::integer:
        set(result.integer, given.as<std::int64_t>());
        break;
      case FieldKind::natural:
        set(result.natural, given.as<std::uint64_t>());
        break;
      case FieldKind::real:
        set(result.real, real(given));
        break;
    }
    return result;
  }
  static std::optional<double> real(JsonView given) {
    if (!given.is_string()) return given.as<double>();
    double const infinity = std::numeric_limits<double>::infinity();
    auto const text = given.as<std::string>();
    if (text == "inf") return infinity;
    if (text == "-inf") return -infinity;
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    return std::nullopt;
  }

  void read_attrs(OpInfo const& op, JsonView given, void* attrs) const {
    for (Field const& field : *op.fields)
      if (!field.set(attrs, value(get<JsonView>(given, field.name), field, op.name)))
        fail("attribute ", field.name, " of ", op.name, " is ", given[field.name].shown(),
             ", which it cannot hold");
    std::size_t const count = given.members().size();
    if (count != op.fields->size())
      fail(op.name, " has ", count, " attributes where ", op.fields->size(), " are known");
  }

  void add_op(LogicalGraph& graph, JsonView given, std::size_t number) const {
    KnownOp const& op = known(get<std::string>(given, "op"), number);
    alignas(8) std::array<std::byte, max_attrs_bytes> attrs{};
    read_attrs(*op.info, get(given, "attrs", JsonKind::object), attrs.data());
    std::vector<Node> operands;
    for (std::string const& name : get<std::vector<std::string>>(given, "operands"))
      operands.push_back(graph.at(name));
    if (operands.empty()) fail("op ", number, ", ", op.info->name, ", has no operands");
    graph.set_phase(get<std::string>(given, "phase"));
    check_members(given, "an op", {"op", "attrs", "operands", "phase"});
    std::size_t const tensors = graph.tensor_count();
    graph.add_op(*op.info, attrs.data(), op.gradient, operands);
    if (graph.tensor_count() != tensors)
      fail("op ", number, ", ", op.info->name, ", has ", operands.size(), " operands, too few");
  }

  JsonView root_;
  std::string_view source_;
  std::span<KnownOp const> ops_;
};

/// Throws FormatError for a file that is no `format`, or of another version.
inline void check_format(JsonView root, std::string_view format, int version,
                         std::string_view source) {
  if (root["format"].as<std::string>() != std::string(format))
    throw FormatError(concat(path_in_quotes(source), ": no ", format, ": its \"format\" is ",
                             root["format"].shown(), ", not \"", format, '"'));
  int const given = json_field<int>(root, "version", source);
  if (given != version)
    throw FormatError(concat(path_in_quotes(source), ": ", format, " of version ", given,
                             " where version ", version,
                             " is read; load it with the library that wrote it, or save it anew "
                             "with this one"));
}

/// Calls read(), which may throw what graphs and plans throw, and says of which file that was.
template <class Read> auto with_source(std::string_view source, Read&& read) {
  try {
    return read();
  } catch (FormatError const&) {
    throw;
  } catch (OutOfMemory const&) {
    throw;
  } catch (Error const& error) {
    std::string text = path_in_quotes(source) + ": ";
    append_printable(text, error.what());  // with names of the file
    throw FormatError(text);
  }
}

}  // namespace detail

/// A graph as JSON: equal graphs have equal texts.
inline std::string graph_text(LogicalGraph const& graph) {
  Json tensors = Json::array(), ops = Json::array();
  for (std::uint32_t t = 0; t < graph.tensor_count(); ++t)
    tensors.push_back(detail::json_of_tensor(graph, graph.tensor_at(t)));
  for (std::size_t i = 0; i < graph.op_count(); ++i) {
    OpNode const& op = graph.op_at(i);
    Json operands = Json::array();
    for (std::uint32_t const operand : op.operands)
      operands.push_back(graph.tensor_at(operand).name);
    ops.push_back(Json::object({{"op", op.info->name},
                                {"attrs", detail::json_of_attrs(op)},
                                {"operands", std::move(operands)},
                                {"phase", graph.phase_name(op.phase)}}));
  }
  Json numerics = Json::object({{"mode", name_of(graph.numerics().mode)}});
  if (!graph.numerics().groups.empty()) {
    Json groups = Json::object();
    for (AxisGroups const& each : graph.numerics().groups) groups[each.axis] = each.groups;
    numerics["groups"] = std::move(groups);
  }
  Json result = Json::object({{"format", "nntile graph"},
                              {"version", graph_version},
                              {"name", graph.name()},
                              {"numerics", numerics},
                              {"phases", graph.phases()},
                              {"tensors", std::move(tensors)},
                              {"ops", std::move(ops)}});
  if (graph.phases_apart()) result["phases_apart"] = true;
  return to_text(result, 1);
}

/// The graph of such a text; `source` is what errors call it. Throws FormatError for another
/// version, an op that is not among `ops`, or what no graph could be.
inline std::unique_ptr<LogicalGraph> graph_of(std::string_view text, std::string_view source,
                                              std::span<KnownOp const> ops) {
  JsonView const root = parse_json(text, source);
  detail::check_format(root, "nntile graph", graph_version, source);
  return detail::with_source(source, [&] { return detail::GraphReader(root, source, ops).read(); });
}

inline void save_graph(std::string const& path, LogicalGraph const& graph) {
  detail::write_graph_file(path, graph_text(graph));
}
inline std::unique_ptr<LogicalGraph> load_graph(std::string const& path,
                                                std::span<KnownOp const> ops) {
  std::string const text = read_file(path, largest_graph_file);
  return graph_of(text, path, ops);
}

}  // namespace nntile::io
