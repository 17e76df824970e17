package gateway

import (
	"strconv"

	"github.com/tributary-hq/tributary/affiliate"
)

// invalidJSON adds the fault that the text at Pos is not valid JSON. It returns false,
// because the decoder must stop.
func (d *decoder) invalidJSON() bool {
	return d.malformed("is not valid JSON at byte " + strconv.Itoa(d.Pos))
}

// malformed adds a fault of the whole body and removes the other faults of the body. They
// may be consequences of the error in the JSON text, and the rest of the text is unknown.
func (d *decoder) malformed(message string) bool {
	if d.faults.singleItem {
		d.faults.list = nil
	} else {
		d.faults.list = d.faults.list[:d.earlier]
	}
	d.faults.addLast(affiliate.WholeBody, message)
	d.faults.incomplete = true
	return false
}

// enter moves past an opening bracket. It returns false if the nesting is too deep.
func (d *decoder) enter() bool {
	d.Pos++
	if d.depth++; d.depth > maxDepth {
		d.faults.addLast(d.currentPath(), "must not be nested deeper than "+strconv.Itoa(maxDepth)+" levels")
		return false
	}
	return true
}

// progress is the state of the decoder inside an object or array.
type progress uint8

// open enters the object or array whose opening bracket is at Pos.
func (d *decoder) open(closing byte) progress {
	if !d.enter() {
		return stopped
	}
	d.path = append(d.path, step{index: -1})
	if d.Take(closing) {
		return d.close()
	}
	return atItem
}

// next moves from the end of a value to the next item or past the closing bracket.
func (d *decoder) next(closing byte) progress {
	switch {
	case d.faults.full():
		return stopped
	case d.Take(','):
		return atItem
	case d.Take(closing):
		return d.close()
	}
	d.invalidJSON()
	return stopped
}

// close leaves an object or array after its closing bracket.
func (d *decoder) close() progress {
	d.path = d.path[:len(d.path)-1]
	d.depth--
	return finished
}

// member reads a key of an object and the colon after the key. If the key contains text
// that cannot be stored, fault is the message.
func (d *decoder) member() (key, fault string, ok bool) {
	if d.SkipSpace() != '"' {
		return "", "", d.invalidJSON()
	}
	key, fault, ok = d.Text()
	if !ok || !d.Take(':') {
		return "", "", d.invalidJSON()
	}
	d.path[len(d.path)-1] = step{key: key, isKey: true}
	if fault != "" {
		fault = fault + " in its name"
	}
	return key, fault, true
}

// nextIndex changes the path to the next index of the array.
func (d *decoder) nextIndex() { d.path[len(d.path)-1].index++ }

// skip skips a value. It only checks that the value is valid JSON and is not nested too
// deeply.
func (d *decoder) skip() bool {
	switch c := d.SkipSpace(); {
	case c == '{':
		p := d.open('}')
		for ; p == atItem; p = d.next('}') {
			if _, _, ok := d.member(); !ok || !d.skip() {
				return false
			}
		}
		return p == finished
	case c == '[':
		p := d.open(']')
		for ; p == atItem; p = d.next(']') {
			if d.nextIndex(); !d.skip() {
				return false
			}
		}
		return p == finished
	case c == '"':
		if _, _, ok := d.Text(); !ok {
			return d.invalidJSON()
		}
	case c == '-' || c >= '0' && c <= '9':
		if _, _, ok := d.Number(); !ok {
			return d.invalidJSON()
		}
	case !d.Literal("true") && !d.Literal("false") && !d.Literal("null"):
		return d.invalidJSON()
	}
	return true
}

// rejectValue adds a fault for the value at Pos and skips the value.
func (d *decoder) rejectValue(message string) bool {
	d.addFault(message)
	return d.skip()
}
