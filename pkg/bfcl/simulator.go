package bfcl

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// Call is a call of a tool: its name and its arguments.
type Call = python.Call

// ParseCall reads a call in Python's syntax, as ground truths are written.
func ParseCall(text string) (Call, error) { return python.ParseCall(text) }

// classes are the eight APIs by name.
var classes = func() map[string]*class {
	byName := map[string]*class{}
	for _, c := range []*class{
		fileSystemClass, mathClass, messageClass, ticketClass, twitterClass, tradingClass, travelClass, vehicleClass,
	} {
		byName[c.name] = c
	}
	return byName
}()

// Simulator is the objects of one task, which calls act on. It is a pure function
// of the task and the calls so far.
type Simulator struct{ members []instance }

// instance is an object with its class.
type instance struct {
	class  *class
	object object
}

// NewSimulator makes an object of every class named, from the configuration of
// that class where config has one.
func NewSimulator(names []string, config *python.Dict) (s *Simulator, err error) {
	defer func() {
		if raised, ok := recover().(exception); ok {
			s, err = nil, fmt.Errorf("setting the tools up: %s", string(raised))
		}
	}()
	s = &Simulator{}
	for _, name := range names {
		c, known := classes[name]
		if !known {
			return nil, fmt.Errorf("there is no API class %q", name)
		}
		own := &python.Dict{}
		if given, found := config.Get(name); found {
			if dict, ok := given.(*python.Dict); ok {
				own = dict
			} else {
				return nil, fmt.Errorf("the configuration of %s is no object", name)
			}
		}
		s.members = append(s.members, instance{c, c.build(own)})
	}
	return s, nil
}

// tool finds a function by its name, and the object that it acts on. No two
// classes have a function of one name.
func (s *Simulator) tool(name string) (*function, object) {
	for _, member := range s.members {
		if f, has := member.class.functions[name]; has {
			return f, member.object
		}
	}
	return nil, nil
}

// Result is what a call gave.
type Result struct {
	Text string // as a policy is shown it
	// Failed is true for a tool that does not exist, for arguments that do not
	// fit, for an exception, and for a result with an "error".
	Failed bool
}

// Execute runs one call. It never fails itself: what a policy did wrong is a
// result.
func (s *Simulator) Execute(call Call) (result Result) {
	defer func() {
		switch raised := recover().(type) {
		case nil:
		case exception:
			result = wrong(string(raised))
		case refusal:
			result = shown(raised.result)
		default:
			panic(raised)
		}
	}()
	f, object := s.tool(call.Name)
	if f == nil {
		return wrong(fmt.Sprintf("name '%s' is not defined", call.Name))
	}
	bound, err := f.bind(call)
	if err != nil {
		return wrong(err.Error())
	}
	return shown(f.run(object, bound))
}

// shown is what a method returns as a policy is shown it.
func shown(value python.Value) Result {
	dict, ok := value.(*python.Dict)
	if !ok {
		return Result{Text: python.String(value)}
	}
	_, failed := dict.Get("error")
	text, ok := python.JSON(dict)
	if !ok {
		text = python.String(dict)
	}
	return Result{Text: text, Failed: failed}
}

func wrong(why string) Result { return Result{Text: "Error during execution: " + why, Failed: true} }

// equal tells, of two simulators of one task, whether all public attributes of all objects are equal.
func (s *Simulator) equal(other *Simulator) bool {
	for i, member := range s.members {
		if !python.Equal(member.object.attributes(), other.members[i].object.attributes()) {
			return false
		}
	}
	return true
}

// named gives the positional arguments of a call the names of the parameters
// that they stand for.
func (s *Simulator) named(call Call) (Call, error) {
	if len(call.Positional) == 0 {
		return call, nil
	}
	f, _ := s.tool(call.Name)
	if f == nil {
		return Call{}, fmt.Errorf("there is no tool %s", call.Name)
	}
	if _, err := f.bind(call); err != nil {
		return Call{}, err
	}
	all := &python.Dict{}
	for i, value := range call.Positional {
		all.Set(f.parameters[i].name, value)
	}
	for i := range call.Named.Len() {
		all.Set(call.Named.At(i))
	}
	return Call{Name: call.Name, Named: all}, nil
}
