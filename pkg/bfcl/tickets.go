package bfcl

import (
	"fmt"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// tickets is TicketAPI.
type tickets struct{ state }

var ticketClass = define("TicketAPI", newTickets, []method[*tickets]{
	{"create_ticket(title, description='', priority=1)", (*tickets).create},
	{"get_ticket(ticket_id)", (*tickets).get},
	{"close_ticket(ticket_id)", (*tickets).closeTicket},
	{"resolve_ticket(ticket_id, resolution)", (*tickets).resolve},
	{"edit_ticket(ticket_id, updates)", (*tickets).edit},
	{"ticket_login(username, password)", (*tickets).login},
	{"ticket_get_login_status()", (*tickets).loginStatus},
	{"logout()", (*tickets).logout},
	{"get_user_tickets(status=None)", (*tickets).ofUser},
})

func newTickets(config *python.Dict) *tickets { return &tickets{newState("TicketAPI", config)} }

func (t *tickets) loggedIn() bool { return python.Truth(t.value("current_user")) }

// find looks a ticket up by its id.
func (t *tickets) find(id python.Value) *python.Dict {
	for _, item := range t.list("ticket_queue").Items {
		if python.Equal(member(item, "id"), id) {
			return item.(*python.Dict)
		}
	}
	return nil
}

func noTicket(id python.Value) python.Value {
	return failed("Ticket with ID %s not found.", python.String(id))
}

// rightPriority tells whether a priority is in [1, 5].
func rightPriority(priority python.Value) bool {
	return !less(priority, int64(1)) && !less(int64(5), priority)
}

func (t *tickets) create(a arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("User not authenticated. Please log in to create a ticket."))
	refuseIf(!rightPriority(a.number(2)), failed("Invalid priority. Priority must be between 1 and 5."))
	ticket := python.NewDict("id", t.next("ticket_counter"), "title", a[0], "description", a[1],
		"status", "Open", "priority", a[2], "created_by", t.value("current_user"))
	queue := t.list("ticket_queue")
	queue.Items = append(queue.Items, ticket)
	return ticket
}

func (t *tickets) get(a arguments) python.Value {
	if ticket := t.find(a[0]); ticket != nil {
		return ticket
	}
	return noTicket(a[0])
}

func (t *tickets) closeTicket(a arguments) python.Value {
	ticket := t.find(a[0])
	refuseIf(ticket == nil, noTicket(a[0]))
	refuseIf(python.Equal(member(ticket, "status"), "Closed"), failed("Ticket with ID %s is already closed.", python.String(a[0])))
	ticket.Set("status", "Closed")
	return result("status", fmt.Sprintf("Ticket %s has been closed successfully.", python.String(a[0])))
}

func (t *tickets) resolve(a arguments) python.Value {
	ticket := t.find(a[0])
	refuseIf(ticket == nil, noTicket(a[0]))
	refuseIf(python.Equal(member(ticket, "status"), "Resolved"), failed("Ticket with ID %s is already resolved.", python.String(a[0])))
	ticket.Set("status", "Resolved")
	ticket.Set("resolution", a[1])
	return result("status", fmt.Sprintf("Ticket %s has been resolved successfully.", python.String(a[0])))
}

func (t *tickets) edit(a arguments) python.Value {
	ticket := t.find(a[0])
	refuseIf(ticket == nil, noTicket(a[0]))
	updates, ok := a[1].(*python.Dict)
	if !ok {
		raise("updates must be a dict, not %s", python.TypeName(a[1]))
	}
	for i := range updates.Len() {
		switch field, _ := updates.At(i); field {
		case "title", "description", "status", "priority":
		default:
			return failed("A ticket has no field %s to update.", python.Repr(field))
		}
	}
	for i := range updates.Len() {
		if field, value := updates.At(i); value != nil {
			ticket.Set(field, value)
		}
	}
	return result("status", fmt.Sprintf("Ticket %s has been updated successfully.", python.String(a[0])))
}

func (t *tickets) login(a arguments) python.Value {
	if !python.Truth(a[0]) || !python.Truth(a[1]) {
		return result("success", false)
	}
	t.Set("current_user", a[0])
	return result("success", true)
}

func (t *tickets) loginStatus(arguments) python.Value { return result("login_status", t.loggedIn()) }

func (t *tickets) logout(arguments) python.Value {
	was := t.loggedIn()
	if was {
		t.Set("current_user", nil)
	}
	return result("success", was)
}

func (t *tickets) ofUser(a arguments) python.Value {
	refuseIf(!t.loggedIn(), python.NewList(failed("User not authenticated. Please log in to view tickets.")))
	wanted := "" // any status
	if python.Truth(a[0]) {
		wanted = lowerCase(a[0])
	}
	own := python.NewList()
	for _, item := range t.list("ticket_queue").Items {
		ticket, ok := item.(*python.Dict)
		if !ok {
			raise("a ticket is no dict")
		}
		if python.Equal(member(ticket, "created_by"), t.value("current_user")) && (wanted == "" || lowerCase(member(ticket, "status")) == wanted) {
			own.Items = append(own.Items, ticket)
		}
	}
	return own
}
