package bfcl

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// trading is TradingBot.
type trading struct {
	state
	random *python.Random
}

var tradingClass = define("TradingBot", newTrading, []method[*trading]{
	{"get_current_time()", (*trading).currentTime},
	{"get_symbol_by_name(name)", (*trading).symbol},
	{"get_stock_info(symbol)", (*trading).stock},
	{"get_order_details(order_id)", (*trading).order},
	{"cancel_order(order_id)", (*trading).cancel},
	{"place_order(order_type, symbol, price, amount)", (*trading).place},
	{"get_account_info()", (*trading).account},
	{"trading_login(username, password)", (*trading).login},
	{"trading_get_login_status()", (*trading).loginStatus},
	{"trading_logout()", (*trading).logout},
	{"fund_account(amount)", (*trading).fund},
	{"withdraw_funds(amount)", (*trading).withdraw},
	{"remove_stock_from_watchlist(symbol)", (*trading).unwatch},
	{"get_watchlist()", (*trading).watchlist},
	{"get_order_history()", (*trading).orderHistory},
	{"get_transaction_history(start_date=None, end_date=None)", (*trading).transactions},
	{"get_available_stocks(sector)", (*trading).sector},
	{"filter_stocks_by_price(stocks, min_price, max_price)", (*trading).filter},
	{"add_to_watchlist(stock)", (*trading).watch},
	{"notify_price_change(stocks, threshold)", (*trading).notify},
})

func newTrading(config *python.Dict) *trading {
	t := &trading{state: newState("TradingBot", config), random: seeded("TradingBot", config)}
	t.Set("orders", wholeKeys(t.dict("orders")))
	t.Set("long_context", false)
	return t
}

func (t *trading) loggedIn() bool { return python.Truth(t.value("authenticated")) }

const notTrading = "User not authenticated. Please log in first."

func noStock(symbol python.Value) python.Value {
	return failed("Stock with symbol '%s' not found.", python.String(symbol))
}

func (t *trading) currentTime(arguments) python.Value {
	return result("current_time", tradingTime().Format("03:04 PM"))
}

// tradingTime is the time that never passes in TradingBot.
func tradingTime() time.Time {
	now, err := time.Parse("2006-01-02 15:04", table[string]("TradingBot", "current_time"))
	if err != nil {
		panic(err)
	}
	return now
}

func (t *trading) symbol(a arguments) python.Value {
	symbol, known := table[*python.Dict]("TradingBot", "symbol_map").Get(a.key(0))
	if !known {
		symbol = table[string]("TradingBot", "symbol_not_found")
	}
	return result("symbol", symbol)
}

func (t *trading) stock(a arguments) python.Value {
	return lookup(t.dict("stocks"), a.key(0), noStock(a[0]))
}

// order looks an order up. Nobody has to be logged in.
func (t *trading) order(a arguments) python.Value {
	return lookup(t.dict("orders"), a.key(0), failed("Order with ID %s not found.", python.String(a[0])))
}

func (t *trading) cancel(a arguments) python.Value {
	order := t.order(a)
	refuseIf(python.Equal(member(order, "status"), "Completed"), failed("Can't cancel order %s. Order is already completed.", python.String(a[0])))
	order.(*python.Dict).Set("status", "Cancelled")
	return result("order_id", a[0], "status", "Cancelled")
}

func (t *trading) place(a arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("%s", notTrading))
	kind, symbol, amount := a.text(0), a.key(1), a.number(3)
	lookup(t.dict("stocks"), symbol, noStock(symbol))
	refuseIf(!less(int64(0), a.number(2)) || !less(int64(0), amount), failed("Price and amount must be above 0."))
	price := must(python.Float(a[2]))
	if strings.EqualFold(kind, "buy") { // shares are paid for as whole ones
		shares := math.Trunc(must(python.Float(amount)))
		if less(t.balance(), apply('*', price, shares)) {
			return failed("Insufficient funds to place the order.")
		}
	}
	id := t.next("order_counter")
	t.dict("orders").Set(id, python.NewDict("id", id, "order_type", kind, "symbol", symbol,
		"price", price, "amount", amount, "status", "Open"))
	return result("order_id", id, "order_type", kind, "status", "Pending", "price", price, "amount", amount)
}

func (t *trading) balance() python.Value { return member(t.dict("account_info"), "balance") }

func (t *trading) account(arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("%s", notTrading))
	return t.dict("account_info")
}

func (t *trading) login(arguments) python.Value {
	if t.loggedIn() {
		return result("status", "Already logged in")
	}
	t.Set("authenticated", true)
	return result("status", "Logged in successfully")
}

func (t *trading) loginStatus(arguments) python.Value { return result("status", t.loggedIn()) }

func (t *trading) logout(arguments) python.Value {
	if !t.loggedIn() {
		return result("status", "No user is currently logged in")
	}
	t.Set("authenticated", false)
	return result("status", "Logged out successfully")
}

// timeLayout is how transactions write their time.
const timeLayout = "2006-01-02 15:04:05"

// move changes the balance and records the transaction, at a random time
// within a day of the current one.
func (t *trading) move(kind string, o python.Operator, amount python.Value) python.Value {
	balance := apply(o, t.balance(), amount)
	t.dict("account_info").Set("balance", balance)
	later := time.Duration(t.random.Between(0, 24*60*60)) * time.Second
	history := t.list("transaction_history")
	history.Items = append(history.Items, python.NewDict("type", kind, "amount", amount,
		"timestamp", tradingTime().Add(later).Format(timeLayout)))
	return balance
}

func (t *trading) fund(a arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("%s", notTrading))
	refuseIf(!less(int64(0), a.number(0)), failed("Funding amount must be above 0."))
	return result("status", "Account funded successfully", "new_balance", t.move("deposit", '+', a[0]))
}

func (t *trading) withdraw(a arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("%s", notTrading))
	if status := t.value("market_status"); !python.Equal(status, "Open") {
		return failed("Funds can only be withdrawn while the market is open. It is %s.", python.String(status))
	}
	refuseIf(!less(int64(0), a.number(0)), failed("Withdrawal amount must be above 0."))
	refuseIf(less(t.balance(), a[0]), failed("Insufficient funds for the withdrawal."))
	return result("status", "Withdrawal successful", "new_balance", t.move("withdrawal", '-', a[0]))
}

func (t *trading) unwatch(a arguments) python.Value {
	refuseIf(!t.loggedIn(), failed("%s", notTrading))
	list := t.list("watch_list")
	i := position(list, a[0])
	refuseIf(i < 0, failed("Stock %s not found in watchlist.", python.String(a[0])))
	list.Items = append(list.Items[:i], list.Items[i+1:]...)
	return result("status", fmt.Sprintf("Stock %s removed from watchlist successfully.", python.String(a[0])))
}

// watchlist, orderHistory and transactions refuse with a list, which is no
// failure of the call.
func (t *trading) watchlist(arguments) python.Value {
	refuseIf(!t.loggedIn(), python.Strings("Error: User not authenticated. Please log in to view the watchlist."))
	return result("watchlist", t.list("watch_list"))
}

// watch leaves a stock out that there is not, and does not fail.
func (t *trading) watch(a arguments) python.Value {
	_, known := t.dict("stocks").Get(a.key(0))
	list := t.list("watch_list")
	if known && !contains(list, a[0]) {
		list.Items = append(list.Items, a[0])
	}
	return result("watchlist", list)
}

func (t *trading) orderHistory(arguments) python.Value {
	refuseIf(!t.loggedIn(), python.NewList(failed("User not authenticated. Please log in to view order history.")))
	return result("history", python.NewList(t.dict("orders").Keys()...))
}

// day reads a date argument; one that is left out bounds nothing.
func day(a python.Value, open time.Time) time.Time {
	if !python.Truth(a) {
		return open
	}
	text, ok := a.(string)
	if !ok {
		raise("a date must be a str, not %s", python.TypeName(a))
	}
	date, err := time.Parse(time.DateOnly, text)
	refuseIf(err != nil, failed("Invalid date '%s'. Please use 'YYYY-MM-DD'.", text))
	return date
}

func (t *trading) transactions(a arguments) python.Value {
	refuseIf(!t.loggedIn(), python.NewList(failed("User not authenticated. Please log in to view transaction history.")))
	start := day(a[0], time.Time{})
	end := day(a[1], time.Unix(math.MaxInt32, 0))
	within := python.NewList()
	for _, transaction := range t.list("transaction_history").Items {
		at, err := time.Parse(timeLayout, python.String(member(transaction, "timestamp")))
		if err != nil {
			raise("time data %s does not match format '%%Y-%%m-%%d %%H:%%M:%%S'", python.Repr(member(transaction, "timestamp")))
		}
		if !at.Before(start) && !at.After(end) {
			within.Items = append(within.Items, transaction)
		}
	}
	return result("transaction_history", within)
}

func (t *trading) sector(a arguments) python.Value {
	stocks, known := table[*python.Dict]("TradingBot", "sector_map").Get(a.key(0))
	if !known {
		stocks = python.NewList()
	}
	return result("stock_list", stocks)
}

// choose lists the stocks of the first argument that pass; stock is nil for one
// that there is not.
func (t *trading) choose(a arguments, passes func(stock python.Value) bool) []python.Value {
	var chosen []python.Value
	for _, symbol := range a.list(0).Items {
		if stock, _ := t.dict("stocks").Get(symbol); passes(stock) {
			chosen = append(chosen, symbol)
		}
	}
	return chosen
}

func (t *trading) filter(a arguments) python.Value {
	return result("filtered_stocks", python.NewList(t.choose(a, func(stock python.Value) bool {
		var price python.Value = int64(0) // of a stock that there is not
		if stock != nil {
			price = member(stock, "price")
		}
		return !less(price, a.number(1)) && !less(a.number(2), price)
	})...))
}

func (t *trading) notify(a arguments) python.Value {
	changed := t.choose(a, func(stock python.Value) bool {
		return stock != nil && !less(math.Abs(must(python.Float(member(stock, "percent_change")))), a.number(1))
	})
	if len(changed) == 0 {
		return result("notification", "No significant price changes in the selected stocks.")
	}
	names := make([]string, len(changed))
	for i, symbol := range changed {
		names[i] = python.String(symbol)
	}
	return result("notification", fmt.Sprintf("Stocks %s have significant price changes.", strings.Join(names, ", ")))
}
