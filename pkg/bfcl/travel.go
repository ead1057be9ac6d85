package bfcl

import (
	"fmt"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// travel is TravelAPI.
type travel struct {
	state
	random *python.Random
}

var travelClass = define("TravelAPI", newTravel, []method[*travel]{
	{"authenticate_travel(client_id, client_secret, refresh_token, grant_type, user_first_name, user_last_name)", (*travel).authenticate},
	{"travel_get_login_status()", (*travel).loginStatus},
	{"get_budget_fiscal_year(lastModifiedAfter=None, includeRemoved=None)", (*travel).fiscalYear},
	{"register_credit_card(access_token, card_number, expiration_date, cardholder_name, card_verification_number)", (*travel).registerCard},
	{"get_flight_cost(travel_from, travel_to, travel_date, travel_class)", (*travel).flightCost},
	{"get_credit_card_balance(access_token, card_id)", (*travel).cardBalance},
	{"book_flight(access_token, card_id, travel_date, travel_from, travel_to, travel_class)", (*travel).book},
	{"retrieve_invoice(access_token, booking_id=None, insurance_id=None)", (*travel).invoice},
	{"get_booking_history(access_token)", (*travel).history},
	{"list_all_airports()", (*travel).airports},
	{"cancel_booking(access_token, booking_id)", (*travel).cancel},
	{"compute_exchange_rate(base_currency, target_currency, value)", (*travel).exchange},
	{"verify_traveler_information(first_name, last_name, date_of_birth, passport_number)", (*travel).verify},
	{"set_budget_limit(access_token, budget_limit)", (*travel).setBudget},
	{"get_nearest_airport_by_city(location)", (*travel).nearestAirport},
	{"purchase_insurance(access_token, insurance_type, insurance_cost, booking_id, card_id)", (*travel).insure},
	{"contact_customer_support(booking_id, message)", (*travel).support},
	{"get_all_credit_cards()", (*travel).cards},
})

func newTravel(config *python.Dict) *travel {
	t := &travel{state: newState("TravelAPI", config), random: seeded("TravelAPI", config)}
	t.Set("long_context", false)
	return t
}

func (t *travel) authenticate(a arguments) python.Value {
	const expires = int64(2)
	token := t.random.Digits(6)
	t.Set("token_expires_in", expires)
	t.Set("access_token", token)
	t.Set("token_type", "Bearer")
	t.Set("token_scope", a[3])
	t.Set("user_first_name", a[4])
	t.Set("user_last_name", a[5])
	return result("expires_in", expires, "access_token", token, "token_type", "Bearer", "scope", a[3])
}

func (t *travel) loginStatus(arguments) python.Value {
	expires := t.value("token_expires_in")
	alive := python.IsNumber(expires) && less(int64(0), expires)
	return result("status", alive && python.Truth(t.value("access_token")))
}

func (t *travel) fiscalYear(arguments) python.Value {
	return result("budget_fiscal_year", table[string]("TravelAPI", "budget_fiscal_year"))
}

// unlock refuses a token that opens nothing; the failure of a call that reports
// its status has that status too.
func (t *travel) unlock(token python.Value, status ...python.Value) {
	refuseIf(python.Equal(t.value("token_expires_in"), int64(0)), result(append(status, "error", "Token expired")...))
	refuseIf(!python.Equal(token, t.value("access_token")), result(append(status, "error", "Invalid access token")...))
}

func (t *travel) registerCard(a arguments) python.Value {
	t.unlock(a[0])
	cards := t.dict("credit_card_list")
	id := t.random.Digits(12)
	cards.Set(id, python.NewDict("card_number", a[1], "expiration_date", a[2], "cardholder_name", a[3],
		"card_verification_number", a[4], "balance", t.random.Between(10000, 99999)))
	return result("card_id", id)
}

// cost is the price of a flight in US dollars: the base cost of the route,
// times a factor of the class, doubled on days whose digits have an even sum.
func cost(from, to, date, class string) float64 {
	base, known := table[*python.Dict]("TravelAPI", "flight_base_cost").Get(from + "|" + to)
	if !known {
		raise("No available route for the given parameters.")
	}
	factor, known := table[*python.Dict]("TravelAPI", "class_factor").Get(class)
	if !known {
		raise("Invalid travel class. Options are: economy, business, first.")
	}
	sum := 0
	for _, digit := range date {
		if digit >= '0' && digit <= '9' {
			sum += int(digit - '0')
		}
	}
	price := base.(int64) * factor.(int64)
	if sum%2 == 0 {
		price *= 2
	}
	return float64(price)
}

func (t *travel) flightCost(a arguments) python.Value {
	return result("travel_cost_list", python.NewList(cost(a.text(0), a.text(1), a.text(2), a.text(3))))
}

func (t *travel) cardBalance(a arguments) python.Value {
	t.unlock(a[0])
	card := lookup(t.dict("credit_card_list"), a.key(1), failed("Card not found"))
	return result("card_balance", member(card, "balance"))
}

func (t *travel) book(a arguments) python.Value {
	refused := func(why string) python.Value { return result("booking_status", false, "error", why) }
	t.unlock(a[0], "booking_status", false)
	card := lookup(t.dict("credit_card_list"), a.key(1), refused("Card not found"))
	purse, ok := card.(*python.Dict)
	if !ok {
		raise("'%s' object has no attribute 'get'", python.TypeName(card))
	}
	balance := lookup(purse, "balance", refused("Balance not found"))
	airports := table[*python.List]("TravelAPI", "airports")
	refuseIf(!contains(airports, a[3]) || !contains(airports, a[4]), refused("Invalid airport code"))
	date := a.text(2)
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return refused("Invalid travel date. Please use 'YYYY-MM-DD'.")
	}
	lookup(table[*python.Dict]("TravelAPI", "class_factor"), a.key(5), refused("Invalid travel class. Options are: economy, business, first."))
	lookup(table[*python.Dict]("TravelAPI", "flight_base_cost"), a.text(3)+"|"+a.text(4), refused("No available route for the given parameters."))
	price := cost(a.text(3), a.text(4), date, a.text(5))
	refuseIf(less(balance, price), refused("Insufficient funds"))
	if limit := t.value("budget_limit"); limit != nil && less(balance, limit) {
		return refused("Balance is less than the budget limit")
	}
	purse.Set("balance", apply('-', balance, price))
	booking, transaction := t.random.Digits(7), t.random.Digits(8)
	t.dict("booking_record").Set(booking, python.NewDict("card_id", a[1], "travel_date", date, "travel_from", a[3],
		"travel_to", a[4], "travel_class", a[5], "travel_cost", price, "transaction_id", transaction))
	return result("booking_id", booking, "transaction_id", transaction, "booking_status", true, "booking_history", result())
}

func (t *travel) invoice(a arguments) python.Value {
	t.unlock(a[0])
	booking := lookup(t.dict("booking_record"), a.key(1), failed("Booking not found"))
	invoice := python.NewDict("booking_id", a[1])
	for _, field := range []string{"travel_date", "travel_from", "travel_to", "travel_class", "travel_cost", "transaction_id"} {
		invoice.Set(field, member(booking, field))
	}
	return result("invoice", invoice)
}

func (t *travel) history(a arguments) python.Value {
	t.unlock(a[0])
	return result("booking_history", t.dict("booking_record"))
}

func (t *travel) airports(arguments) python.Value {
	return table[*python.List]("TravelAPI", "airports")
}

func (t *travel) cancel(a arguments) python.Value {
	t.unlock(a[0], "cancel_status", false)
	bookings := t.dict("booking_record")
	booking, known := bookings.Get(a.key(1))
	if !known {
		return result("cancel_status", false, "error", "Booking not found")
	}
	card := member(t.dict("credit_card_list"), member(booking, "card_id"))
	refunded := apply('+', member(card, "balance"), member(booking, "travel_cost"))
	card.(*python.Dict).Set("balance", refunded)
	bookings.Delete(a[1])
	return result("cancel_status", true)
}

func (t *travel) exchange(a arguments) python.Value {
	base, target := a.text(0), a.text(1)
	rates := table[*python.Dict]("TravelAPI", "exchange_rate_from_usd")
	baseRate, baseKnown := rates.Get(base)
	targetRate, targetKnown := rates.Get(target)
	switch {
	case base == "USD" && targetKnown:
		return result("exchanged_value", must(python.Float(apply('*', a.number(2), targetRate))))
	case target == "USD" && baseKnown:
		return result("exchanged_value", must(python.Round(apply('/', a.number(2), baseRate), 2)))
	}
	raise("No available exchange rate for the given currencies.")
	return nil
}

// today is the day on which travellers are of age: one that never passes, so
// that a call means the same in every run.
var today = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

func (t *travel) verify(a arguments) python.Value {
	refused := func(why string) python.Value {
		return result("verification_status", false, "verification_failure", why)
	}
	if !python.Equal(a[0], t.value("user_first_name")) || !python.Equal(a[1], t.value("user_last_name")) {
		return refused(fmt.Sprintf("Cannot book flight information for another user.Expected %s %s, got %s %s",
			python.String(t.value("user_first_name")), python.String(t.value("user_last_name")), python.String(a[0]), python.String(a[1])))
	}
	born, err := time.Parse(time.DateOnly, a.text(2))
	refuseIf(err != nil, refused("Invalid date of birth format. Please use YYYY-MM-DD."))
	refuseIf(born.AddDate(18, 0, 0).After(today), refused("Traveler must be at least 18 years old."))
	refuseIf(!strings.HasPrefix(a.text(3), "US"), refused("Passport must be issued by the United States."))
	return result("verification_status", true)
}

func (t *travel) setBudget(a arguments) python.Value {
	t.unlock(a[0])
	limit := must(python.Float(a[1]))
	t.Set("budget_limit", limit)
	return result("budget_limit", limit)
}

func (t *travel) nearestAirport(a arguments) python.Value {
	airport, known := table[*python.Dict]("TravelAPI", "nearest_airport").Get(a.key(0))
	if !known {
		airport = table[string]("TravelAPI", "nearest_airport_unknown")
	}
	return result("nearest_airport", airport)
}

func (t *travel) insure(a arguments) python.Value {
	refused := func(why string) python.Value { return result("insurance_status", false, "error", why) }
	t.unlock(a[0], "insurance_status", false)
	if limit := t.value("budget_limit"); limit != nil && less(limit, a.number(2)) {
		return refused("Exceeded budget limit")
	}
	lookup(t.dict("booking_record"), a.key(3), refused("Booking not found"))
	card := lookup(t.dict("credit_card_list"), a.key(4), refused("Credit card not registered"))
	balance := apply('-', member(card, "balance"), a.number(2))
	card.(*python.Dict).Set("balance", balance)
	return result("insurance_id", t.random.Digits(9), "insurance_status", true)
}

func (t *travel) support(a arguments) python.Value {
	lookup(t.dict("booking_record"), a.key(0), failed("Booking not found"))
	return result("customer_support_message", table[string]("TravelAPI", "customer_support_message"))
}

func (t *travel) cards(arguments) python.Value {
	return result("credit_card_list", t.dict("credit_card_list"))
}
