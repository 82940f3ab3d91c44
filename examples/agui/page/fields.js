// Controls for a JSON Schema: text, numbers, dates, yes or no, one or several choices, objects, and JSON for the rest.
//
// A field is {pointer, element, read, showProblem, focus}. `read(problems)` returns the value, or undefined if nothing was
// entered, and adds {pointer, message} to `problems` for an entry that is not valid.

import { element, newId, shown } from "./dom.js";

const MAX_RADIOS = 8;
const DATES = { date: "date", "date-time": "datetime-local", email: "email", uri: "url" };

/**
 * Return the field for a schema.
 *
 * @param given - The schema.
 * @param options - `root`: the schema that local references point into. `pointer`: JSON pointer of the value. `label`: text
 * above the control. `isRequired`: whether there must be a value. `value`: value to start with.
 */
export function createField(given, { root, pointer, label, isRequired = true, value }) {
  const schema = plain(given, root);
  const field = { schema, root, pointer, isRequired, label: label ?? schema.title ?? pointer.split("/").at(-1) };
  field.value = value === undefined ? schema.default : value;
  field.hint = schema.description;
  return make(field);
}

function make(field) {
  const { schema } = field;
  const options = choices(schema);
  if (options) return oneOf(field, options);
  if (schema.type === "array" && schema.items && choices(plain(schema.items, field.root))) return several(field);
  if (schema.type === "boolean") {
    return oneOf(field, { values: [{ value: true, label: "Yes" }, { value: false, label: "No" }] });
  }
  if (schema.type === "integer" || schema.type === "number") return number(field);
  if (schema.type === "string") return text(field);
  if (schema.type === "object" && Object.keys(schema.properties ?? {}).length) return group(field);
  return json(field);
}

// Schemas
// ---------------------------------------------------------------------------------------------------------------------------

/** Return a schema without a local reference, and without the branch `null` of an optional value. */
export function plain(given, root) {
  let schema = given === true || !given ? {} : given;
  for (let steps = 0; schema.$ref && steps < 20; steps++) {
    const { $ref, ...rest } = schema;
    schema = { ...at(root, $ref), ...rest };
  }
  const branches = (schema.anyOf ?? []).filter((branch) => branch.type !== "null");
  if (schema.anyOf && branches.length === 1) {
    const { anyOf, ...rest } = schema;
    return { ...plain(branches[0], root), ...rest };
  }
  return schema;
}

function at(root, reference) {
  const names = reference.replace(/^#\/?/, "").split("/").filter(Boolean);
  return names.reduce(
    (place, name) => place?.[decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")],
    root,
  );
}

/** Return {values, hasOther} if a schema is a choice. Otherwise return null. */
function choices(schema) {
  if (schema.const !== undefined) return { values: [option(schema.const)] };
  if (schema.enum) return { values: schema.enum.map((value) => option(value)) };
  if (schema.oneOf?.every((each) => each.const !== undefined)) {
    return { values: schema.oneOf.map((each) => option(each.const, each.title)) };
  }
  const [first, other] = schema.anyOf ?? [];
  if (schema.anyOf?.length === 2 && other.properties?.other) {
    const found = choices(first);
    return found && { ...found, hasOther: true };
  }
  return null;
}

const option = (value, label = shown(value)) => ({ value, label });
const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Fields
// ---------------------------------------------------------------------------------------------------------------------------

function number(field) {
  const { schema, value } = field;
  const limits = { min: schema.minimum, max: schema.maximum, step: schema.type === "integer" ? 1 : "any" };
  const control = element("input", { type: "number", inputMode: "decimal", value: value ?? "", ...limits });
  return single(field, control, (typed) => Number(typed));
}

function text(field) {
  const { schema, value } = field;
  const type = schema.writeOnly ? "password" : DATES[schema.format];
  const isLine = type || schema.pattern || (schema.maxLength ?? Infinity) <= 200;
  const control = isLine
    ? element("input", { type: type ?? "text", dir: "auto", autocomplete: "off" })
    : element("textarea", { rows: 2, dir: "auto" });
  control.value = value ?? "";
  const hasTime = schema.format === "date-time";
  return single(field, control, (typed) => (hasTime ? new Date(typed).toISOString() : typed));
}

function json(field) {
  const value = field.value === undefined ? "" : JSON.stringify(field.value, null, 2);
  const control = element("textarea", { rows: 3, className: "mono", spellcheck: false, value });
  return single({ ...field, hint: field.hint ?? "JSON" }, control, JSON.parse);
}

/** Return a field with one control. `parse` returns the value of the entered text. */
function single(field, control, parse) {
  control.id = newId("field");
  control.name = field.pointer;
  control.required = field.isRequired;
  const caption = element("label", { htmlFor: control.id }, ...captionOf(field));
  const parts = besides(field, control);
  return {
    pointer: field.pointer,
    element: element("div", { className: "field" }, caption, parts.hint, control, parts.problem),
    showProblem: parts.showProblem,
    focus: () => control.focus(),
    read(problems) {
      if (!control.validity.valid) {
        problems.push({ pointer: field.pointer, message: control.validationMessage });
        return undefined;
      }
      if (control.value === "") return undefined;
      try {
        return parse(control.value);
      } catch (error) {
        problems.push({ pointer: field.pointer, message: error.message });
        return undefined;
      }
    },
  };
}

function oneOf(field, { values, hasOther }) {
  if (values.length > MAX_RADIOS && !hasOther) return select(field, values);
  const { controls, other, options } = optionList(field, "radio", values, hasOther, (value) => isSame(value, field.value));
  return set(field, options, controls[0], (problems) => {
    const chosen = controls.findIndex((control) => control.checked);
    if (chosen === -1) return missing(field, problems, controls[0].validationMessage);
    return chosen < values.length ? values[chosen].value : own(field, other, problems);
  });
}

function several(field) {
  const { schema } = field;
  const { values, hasOther } = choices(plain(schema.items, field.root));
  const isChosen = (value) => (field.value ?? []).some((each) => isSame(each, value));
  const { controls, other, options } = optionList(field, "checkbox", values, hasOther, isChosen);
  const least = Math.max(schema.minItems ?? 0, field.isRequired ? (schema.minItems ?? 0) : 0);
  const most = schema.maxItems ?? Infinity;
  return set(field, options, controls[0], (problems) => {
    const chosen = controls.flatMap((control, place) => {
      if (!control.checked) return [];
      return [place < values.length ? values[place].value : own(field, other, problems)];
    });
    if (!chosen.length && !field.isRequired) return undefined;
    if (chosen.length < least) return missing(field, problems, `Choose at least ${least}.`, true);
    if (chosen.length > most) return missing(field, problems, `Choose at most ${most}.`, true);
    return chosen;
  });
}

function missing(field, problems, message, isProblem = field.isRequired) {
  if (isProblem) problems.push({ pointer: field.pointer, message });
  return undefined;
}

function own(field, other, problems) {
  const words = other.value.trim();
  return words ? { other: words } : missing(field, problems, "Enter your own words.", true);
}

function optionList(field, type, values, hasOther, isChosen) {
  const options = element("div", { className: "options" });
  const controls = values.map(({ value, label }, place) => {
    const control = element("input", { type, name: field.pointer, value: String(place), checked: isChosen(value) });
    control.required = type === "radio" && field.isRequired;
    options.append(element("label", { className: "option" }, control, element("span", { dir: "auto" }, label)));
    return control;
  });
  let other = null;
  if (hasOther) {
    const control = element("input", { type, name: field.pointer, value: "other", checked: field.value?.other !== undefined });
    other = element("input", { type: "text", name: `${field.pointer}/other`, dir: "auto", ariaLabel: "Your own words" });
    other.value = field.value?.other ?? "";
    other.addEventListener("input", () => { control.checked = true; });
    controls.push(control);
    options.append(
      element("div", { className: "option own" }, element("label", {}, control, element("span", {}, "Something else")), other),
    );
  }
  return { controls, other, options };
}

function select(field, values) {
  const control = element("select", {}, element("option", { value: "" }, "Choose …"));
  for (const [place, { value, label }] of values.entries()) {
    control.append(element("option", { value: String(place), selected: isSame(value, field.value) }, label));
  }
  return single(field, control, (place) => values[Number(place)].value);
}

/** Return a field of several controls with a legend. */
function set(field, content, first, read) {
  const parts = besides(field, null);
  const legend = element("legend", {}, ...captionOf(field));
  const outer = element("fieldset", { className: "field" }, legend, parts.hint, content, parts.problem);
  outer.setAttribute("aria-describedby", parts.describedBy);
  return {
    pointer: field.pointer,
    element: outer,
    showProblem: parts.showProblem,
    focus: () => first?.focus(),
    read,
  };
}

function group(field) {
  const fields = createFields(field.schema, { root: field.root, pointer: field.pointer, values: field.value });
  const content = element("div", { className: "fields" }, ...fields.map((each) => each.element));
  const made = set(field, content, null, (problems) => {
    const found = [];
    const value = readFields(fields, found);
    if (!field.isRequired && !Object.keys(value).length) return undefined;
    problems.push(...found);
    return value;
  });
  return { ...made, fields, focus: () => fields[0]?.focus() };
}

/** Return the fields for the properties of an object. `values` are the values to start with. */
export function createFields(schema, { root, pointer, values }) {
  const required = new Set(schema.required ?? []);
  for (const { then } of schema.allOf ?? []) (then?.required ?? []).forEach((name) => required.add(name)); // if it is shown
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    const place = `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    const options = { root, pointer: place, isRequired: required.has(name), value: values?.[name] };
    return { ...createField(property, options), name };
  });
}

/** Return the entered values by name. Hidden fields are left out. */
export function readFields(fields, problems) {
  const found = {};
  for (const field of fields) {
    if (field.element.hidden) continue;
    const value = field.read(problems);
    if (value !== undefined) found[field.name] = value;
  }
  return found;
}

// Parts
// ---------------------------------------------------------------------------------------------------------------------------

const captionOf = ({ label, isRequired }) => [
  element("span", { className: "label", dir: "auto" }, label),
  isRequired
    ? element("span", { className: "required" }, element("span", { ariaHidden: "true" }, " *"), element("span", { className: "unseen" }, " (required)"))
    : element("span", { className: "muted" }, " (optional)"),
];

function besides(field, control) {
  const hint = element("p", { className: "hint", id: newId("hint"), dir: "auto" }, field.hint ?? "");
  const problem = element("p", { className: "problem", id: newId("problem"), hidden: true, dir: "auto" });
  const describedBy = `${hint.id} ${problem.id}`;
  control?.setAttribute("aria-describedby", describedBy);
  return {
    hint,
    problem,
    describedBy,
    showProblem(message) {
      problem.textContent = message ?? "";
      problem.hidden = !message;
      if (!control) return;
      if (message) control.setAttribute("aria-invalid", "true");
      else control.removeAttribute("aria-invalid");
    },
  };
}

/** Show each problem next to its field. Return the problems that belong to no field. */
export function showProblems(fields, problems) {
  const all = fields.flatMap((field) => (field.fields ? [field, ...field.fields] : [field]));
  const texts = new Map();
  const others = [];
  for (const { pointer, message } of problems) {
    const owners = all.filter((field) => pointer === field.pointer || pointer.startsWith(`${field.pointer}/`));
    const owner = owners.sort((one, other) => one.pointer.length - other.pointer.length).at(-1);
    if (owner) texts.set(owner, [...(texts.get(owner) ?? []), message]);
    else others.push(message);
  }
  for (const field of all) field.showProblem(texts.get(field)?.join(" "));
  all.find((field) => texts.has(field))?.focus();
  return others;
}
