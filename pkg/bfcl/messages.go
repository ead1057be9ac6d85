package bfcl

import (
	"fmt"
	"strings"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// messages is MessageAPI.
type messages struct {
	state
	random *python.Random
}

var messageClass = define("MessageAPI", newMessages, []method[*messages]{
	{"list_users()", (*messages).listUsers},
	{"get_user_id(user)", (*messages).userID},
	{"message_login(user_id)", (*messages).login},
	{"message_get_login_status()", (*messages).loginStatus},
	{"send_message(receiver_id, message)", (*messages).send},
	{"delete_message(receiver_id)", (*messages).remove},
	{"view_messages_sent()", (*messages).sent},
	{"add_contact(user_name)", (*messages).addContact},
	{"search_messages(keyword)", (*messages).search},
	{"get_message_stats()", (*messages).stats},
})

func newMessages(config *python.Dict) *messages {
	m := &messages{state: newState("MessageAPI", config), random: seeded("MessageAPI", config)}
	ids := &python.Set{}
	if given, ok := m.value("generated_ids").(*python.List); ok {
		for _, id := range given.Items {
			if n, whole := id.(int64); whole {
				ids.Add(n)
			}
		}
	}
	m.Set("generated_ids", ids)
	return m
}

// seeded makes the random numbers of a class.
func seeded(class string, config *python.Dict) *python.Random {
	seed := table[int64](class, "default_random_seed")
	if given, ok := config.Get("random_seed"); ok {
		n, whole := given.(int64)
		if !whole || n < 0 {
			raise("random_seed must be a whole number of 0 or more")
		}
		seed = n
	}
	return python.NewRandom(uint64(seed))
}

func (m *messages) loggedIn() bool { return python.Truth(m.value("current_user")) }

const nobodyLoggedIn = "No user is currently logged in."

// user tells whether an id belongs to the workspace.
func (m *messages) user(id python.Value) bool {
	users := m.dict("user_map")
	for i := range users.Len() {
		if _, other := users.At(i); python.Equal(id, other) {
			return true
		}
	}
	return false
}

// first returns the receiver and the content of an item of the inbox.
func first(item python.Value) (receiver, content python.Value) {
	pair, ok := item.(*python.Dict)
	if !ok || pair.Len() == 0 {
		raise("an item of the inbox is no dict with a receiver")
	}
	return pair.At(0)
}

func (m *messages) listUsers(arguments) python.Value {
	return result("user_list", python.NewList(m.dict("user_map").Keys()...))
}

func (m *messages) userID(a arguments) python.Value {
	id := lookup(m.dict("user_map"), a.key(0), failed("User '%s' not found in the workspace.", python.String(a[0])))
	return result("user_id", id)
}

func (m *messages) login(a arguments) python.Value {
	name := python.String(a[0])
	if !m.user(a[0]) {
		return result("login_status", false, "message", fmt.Sprintf("User ID '%s' not found.", name))
	}
	m.Set("current_user", a[0])
	return result("login_status", true, "message", fmt.Sprintf("User '%s' logged in successfully.", name))
}

func (m *messages) loginStatus(arguments) python.Value {
	return result("login_status", m.loggedIn())
}

func (m *messages) send(a arguments) python.Value {
	refuseIf(!m.loggedIn(), failed("%s", nobodyLoggedIn))
	receiver := python.String(a[0])
	refuseIf(!m.user(a[0]), failed("Receiver ID '%s' not found.", receiver))
	ids := m.value("generated_ids").(*python.Set)
	id := m.random.Between(10000, 99999)
	for ids.Has(id) {
		id = m.random.Between(10000, 99999)
	}
	ids.Add(id)
	inbox := m.list("inbox")
	inbox.Items = append(inbox.Items, python.NewDict(a.key(0), a[1]))
	m.next("message_count")
	return result("sent_status", true, "message_id", result("new_id", id),
		"message", fmt.Sprintf("Message sent to '%s' successfully.", receiver))
}

func (m *messages) remove(a arguments) python.Value {
	refuseIf(!m.loggedIn(), failed("%s", nobodyLoggedIn))
	inbox := m.list("inbox")
	for i := len(inbox.Items) - 1; i >= 0; i-- {
		if receiver, _ := first(inbox.Items[i]); python.Equal(receiver, a[0]) {
			// list.remove takes the first message that is equal to the latest one.
			i = position(inbox, inbox.Items[i])
			inbox.Items = append(inbox.Items[:i], inbox.Items[i+1:]...)
			return result("deleted_status", true, "receiver_id", a[0],
				"message", fmt.Sprintf("Receiver %s's latest message deleted successfully.", python.String(a[0])))
		}
	}
	return failed("No message to the receiver %s was found.", python.String(a[0]))
}

func (m *messages) sent(arguments) python.Value {
	refuseIf(!m.loggedIn(), failed("%s", nobodyLoggedIn))
	byReceiver := &python.Dict{}
	for _, item := range m.list("inbox").Items {
		receiver, content := first(item)
		if earlier, found := byReceiver.Get(receiver); found {
			list := earlier.(*python.List)
			list.Items = append(list.Items, content)
		} else {
			byReceiver.Set(receiver, python.NewList(content))
		}
	}
	return result("messages", byReceiver)
}

// addContact needs nobody to be logged in.
func (m *messages) addContact(a arguments) python.Value {
	users := m.dict("user_map")
	name := python.String(a[0])
	if _, known := users.Get(a.key(0)); known {
		return failed("User name '%s' already exists.", name)
	}
	m.next("user_count")
	count, whole := m.value("user_count").(int64)
	if !whole {
		raise("user_count is no int")
	}
	id := fmt.Sprintf("USR%03d", count)
	refuseIf(m.user(id), failed("User ID '%s' already exists.", id))
	users.Set(a[0], id)
	return result("added_status", true, "user_id", id, "message", fmt.Sprintf("Contact '%s' added successfully.", name))
}

func (m *messages) search(a arguments) python.Value {
	refuseIf(!m.loggedIn(), failed("%s", nobodyLoggedIn))
	keyword := strings.ToLower(a.text(0))
	found := python.NewList()
	for _, item := range m.list("inbox").Items {
		receiver, content := first(item)
		text, ok := content.(string)
		if !ok {
			raise("'%s' object has no attribute 'lower'", python.TypeName(content))
		}
		if strings.Contains(strings.ToLower(text), keyword) {
			found.Items = append(found.Items, result("receiver_id", receiver, "message", content))
		}
	}
	return result("results", found)
}

func (m *messages) stats(arguments) python.Value {
	refuseIf(!m.loggedIn(), failed("%s", nobodyLoggedIn))
	inbox, contacts := m.list("inbox").Items, &python.Dict{}
	for _, item := range inbox {
		receiver, _ := first(item)
		contacts.Set(receiver, nil)
	}
	return result("stats", result("received_count", int64(len(inbox)), "total_contacts", int64(contacts.Len())))
}
