// Makes an example of a message from the definition of its schema, for the form that publishes. Nothing here touches the
// page.

const PRIMITIVES = { null: null, boolean: false, int: 0, long: 0, float: 0, double: 0, bytes: "", string: "" };

// Returns the text of an example, or "" for a schema whose values are not records, or that holds itself without end. The
// definition of schemas of both types is Avro's. Values of AVRO are written in Avro's JSON encoding, in which a branch of
// a union is named: {"string": "x"}; those of JSON are plain.
export function exampleOf({ type, data }) {
  if (type !== "AVRO" && type !== "JSON") return "";
  try {
    return JSON.stringify(new Example(type === "AVRO").valueOf(JSON.parse(data)), null, 2);
  } catch {
    return "";
  }
}

class Example {
  #isNamed;
  #known = new Map();
  #fullNames = new Map();
  #open = new Set();
  #namespace = "";

  constructor(isNamed) {
    this.#isNamed = isNamed;
  }

  valueOf(given) {
    if (Array.isArray(given)) return this.#valueOfUnion(given);
    const definition = this.#found(given);
    if (typeof definition === "string") return PRIMITIVES[definition];
    if (definition.name !== undefined) this.#remember(definition);
    if (definition.type === "record") return this.#valueOfRecord(definition);
    if (definition.type === "enum") return definition.symbols[0];
    if (definition.type === "array") return [];
    if (definition.type === "map") return {};
    if (definition.type === "fixed") return "\u0000".repeat(definition.size);
    return this.valueOf(definition.type);
  }

  #found(given) {
    return this.#known.get(given) ?? given;
  }

  // A name without a namespace is in that of the record around it.
  #remember(definition) {
    const namespace = definition.namespace ?? this.#namespace;
    const isWhole = namespace === "" || definition.name.includes(".");
    const fullName = isWhole ? definition.name : `${namespace}.${definition.name}`;
    this.#fullNames.set(definition, fullName);
    this.#known.set(definition.name, definition).set(fullName, definition);
  }

  #valueOfRecord(definition) {
    if (this.#open.has(definition)) throw new RangeError("The schema holds itself without end");
    const around = this.#namespace;
    this.#namespace = this.#fullNames.get(definition).split(".").slice(0, -1).join(".");
    this.#open.add(definition);
    const fields = definition.fields.map((field) => [field.name, this.valueOf(field.type)]);
    this.#open.delete(definition);
    this.#namespace = around;
    return Object.fromEntries(fields);
  }

  // A record that may hold itself ends with null.
  #valueOfUnion(branches) {
    const branch = this.#found(branches.find((each) => each !== "null"));
    if (branch === undefined || (branches.includes("null") && this.#open.has(branch))) return null;
    const value = this.valueOf(branch);
    return this.#isNamed ? { [this.#nameOf(branch)]: value } : value;
  }

  #nameOf(definition) {
    if (typeof definition === "string") return definition;
    return this.#fullNames.get(definition) ?? this.#nameOf(definition.type);
  }
}
