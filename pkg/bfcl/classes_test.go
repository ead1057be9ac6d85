package bfcl

import (
	"strings"
	"testing"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// newSimulator makes the objects of some classes from a configuration in JSON.
func newSimulator(t testing.TB, config string, names ...string) *Simulator {
	t.Helper()
	value, err := python.FromJSON([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	simulator, err := NewSimulator(names, value.(*python.Dict))
	if err != nil {
		t.Fatal(err)
	}
	return simulator
}

// transcript is calls with what they must give. "error" is any failure, and
// "" a result that does not matter.
type transcript [][2]string

func (calls transcript) run(t *testing.T, simulator *Simulator) {
	t.Helper()
	for _, c := range calls {
		call, err := ParseCall(c[0])
		if err != nil {
			t.Fatal(err)
		}
		got := simulator.Execute(call)
		switch {
		case got.Failed != (c[1] == "error"):
			t.Errorf("%s: failed is %v: %s", c[0], got.Failed, got.Text)
		case c[1] != "error" && c[1] != "" && got.Text != c[1]:
			t.Errorf("%s\n got %s\nwant %s", c[0], got.Text, c[1])
		}
	}
}

func TestFileSystem(t *testing.T) {
	t.Parallel()
	simulator := newSimulator(t, `{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {
		"a.txt": {"type": "file", "content": "one\ntwo\r\nthree é\n"}, ".hidden": {"type": "file", "content": ""},
		"sub": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "b"}}}}}}}}`, "GorillaFileSystem")
	transcript{
		{"pwd()", `{"current_working_directory": "/home"}`},
		{"cd('..')", "error"},
		{"cd('a.txt')", "error"},
		{"cd('sub/x')", "error"},
		{"ls()", `{"current_directory_content": ["a.txt", "sub"]}`},
		{"ls(True)", `{"current_directory_content": ["a.txt", ".hidden", "sub"]}`},
		{"wc('a.txt')", `{"count": 3, "type": "lines"}`},
		{"wc('a.txt', 'w')", `{"count": 4, "type": "words"}`},
		{"wc('a.txt', 'c')", `{"count": 17, "type": "characters"}`},
		{"wc('a.txt', 'x')", "error"},
		{"wc('sub')", "error"},
		{"tail('a.txt', 2)", `{"last_lines": "two\nthree \u00e9"}`},
		{"tail('a.txt', 0)", `{"last_lines": "one\ntwo\nthree \u00e9"}`},
		{"tail('a.txt', -1)", `{"last_lines": "two\nthree \u00e9"}`},
		{"tail('a.txt', -9223372036854775808)", `{"last_lines": ""}`},
		{"tail('a.txt', 9223372036854775807)", `{"last_lines": "one\ntwo\nthree \u00e9"}`},
		{"tail('a.txt', 1.0)", "error"},
		{"grep('a.txt', 't')", `{"matching_lines": ["two", "three \u00e9"]}`},
		{"sort('a.txt')", `{"sorted_content": "one\nthree \u00e9\ntwo"}`},
		{"du()", `{"disk_usage": "19 bytes"}`},
		{"du(True)", `{"disk_usage": "19.00 B"}`},
		{"find(name='a.')", `{"matches": ["./a.txt", "./sub/a.txt"]}`},
		{"find('sub')", `{"matches": ["sub/a.txt"]}`},
		{"find('nowhere')", "error"},
		{"echo('hello')", `{"terminal_output": "hello"}`},
		{"echo('x', 'new.txt')", "error"},
		{"echo('x', 'sub')", "error"},
		{"touch('new.txt')", "None"},
		{"touch('new.txt')", "error"},
		{"touch('a/b')", "error"},
		{"mkdir('a.txt')", "error"},
		{"echo('x', 'new.txt')", "None"},
		{"cat('new.txt')", `{"file_content": "x"}`},
		{"cat('sub')", "error"},
		{"cat('gone')", "error"},
		{"mv('a.txt', 'sub')", "error"},
		{"mv('sub', 'sub')", "error"},
		{"mv('new.txt', 'a.txt')", "error"},
		{"mv('new.txt', 'x/y')", "error"},
		{"cp('new.txt', 'sub')", `{"result": "'new.txt' copied to 'sub/new.txt'"}`},
		{"rmdir('sub')", "error"},
		{"rmdir('a.txt')", "error"},
		{"mv('sub', 'top')", `{"result": "'sub' moved to 'top'"}`},
		{"cd('top')", `{"current_working_directory": "top"}`},
		{"pwd()", `{"current_working_directory": "/home/top"}`},
		{"rm('new.txt')", `{"result": "'new.txt' removed"}`},
		{"cd('..')", "{}"},
		{"rm('top')", `{"result": "'top' removed"}`},
		{"rm('top')", "error"},
		{"mkdir('e')", "None"},
		{"rmdir('e')", `{"result": "'e' removed"}`},
		{"ls(a=1, b=2)", "error"},
		{"ls(1, a=2)", "error"},
		{"ls(1, 2)", "error"},
		{"cat()", "error"},
		{"cat(1)", "error"},
		{"format('c:')", "error"},
	}.run(t, simulator)
}

// A folder copied into itself doubles; the tree stays bounded.
func TestCopiesAreBounded(t *testing.T) {
	t.Parallel()
	simulator := newSimulator(t, `{"GorillaFileSystem": {"root": {"r": {"type": "directory", "contents": {"d": {"type": "directory", "contents": {}}}}}}}`, "GorillaFileSystem")
	refused := false
	for i := range 60 {
		for _, call := range []Call{
			{Name: "cp", Positional: []python.Value{"d", "e"}, Named: &python.Dict{}},
			{Name: "mv", Positional: []python.Value{"e", "d"}, Named: &python.Dict{}},
			{Name: "mv", Positional: []python.Value{"d", "e"}, Named: &python.Dict{}},
			{Name: "mkdir", Positional: []python.Value{"d"}, Named: &python.Dict{}},
			{Name: "mv", Positional: []python.Value{"e", "d"}, Named: &python.Dict{}},
		} {
			got := simulator.Execute(call)
			refused = refused || strings.Contains(got.Text, "No space left")
		}
		if entries, _ := simulator.members[0].object.(*fileSystem).root.size(); entries > maxEntries+200 {
			t.Fatalf("after %d rounds there are %d entries", i, entries)
		}
	}
	if !refused {
		t.Error("no copy was refused")
	}
}

func TestArithmetic(t *testing.T) {
	t.Parallel()
	transcript{
		{"add(1, 2)", `{"result": 3}`},
		{"add(0.1, 0.2)", `{"result": 0.30000000000000004}`},
		{"subtract(2, True)", `{"result": 1}`},
		{"multiply(9223372036854775807, 10)", `{"result": 92233720368547758070}`},
		{"divide(7, 2)", `{"result": 3.5}`},
		{"divide(1, 0)", "error"},
		{"add('1', 2)", "error"},
		{"add([1], 2)", "error"},
		{"power(2, 0.5)", `{"result": 1.4142135623730951}`},
		{"power(9, 99999999)", "error"},
		{"square_root(2, 5)", `{'result': Decimal('1.4142')}`},
		{"square_root(-1, 5)", "error"},
		{"square_root(2, 100000000)", "error"},
		{"logarithm(0, 10, 5)", "error"},
		{"logarithm(10, 1, 5)", "error"},
		{"logarithm(10, 10, 1e9)", "error"},
		{"absolute_value(-3)", `{"result": 3}`},
		{"absolute_value(-0.5)", `{"result": 0.5}`},
		{"round_number(2.675, 2)", `{"result": 2.67}`},
		{"round_number(7)", `{"result": 7}`},
		{"percentage(1, 8)", `{"result": 12.5}`},
		{"percentage(1, 0)", "error"},
		{"mean([])", "error"},
		{"mean([1, 'a'])", "error"},
		{"mean([1, 2])", `{"result": 1.5}`},
		{"standard_deviation([2, 4, 4, 4, 5, 5, 7, 9])", `{"result": 2.0}`},
		{"min_value([3, 1.0, 1])", `{"result": 1.0}`},
		{"max_value([3, 3.0, 1])", `{"result": 3}`},
		{"max_value(3)", "error"},
		{"sum_values([1, 2.5])", `{"result": 3.5}`},
		{"si_unit_conversion(5, 'km', 'm')", `{"result": 5000.0}`},
		{"si_unit_conversion(5, 'km', 'mile')", "error"},
		{"imperial_si_conversion(10, 'km', 'miles')", `{"result": 6.21371}`},
		{"imperial_si_conversion(10, 'celsius', 'fahrenheit')", `{"result": 50.0}`},
		{"imperial_si_conversion(50, 'fahrenheit', 'celsius')", `{"result": 10.0}`},
		{"imperial_si_conversion(1, 'm', 'm')", `{"result": 1}`},
		{"imperial_si_conversion(1, 'm', 'lb')", "error"},
	}.run(t, newSimulator(t, `{}`, "MathAPI"))
}

func TestMessages(t *testing.T) {
	t.Parallel()
	transcript{
		{"send_message('USR002', 'hi')", "error"},
		{"message_login('USR999')", `{"login_status": false, "message": "User ID 'USR999' not found."}`},
		{"message_get_login_status()", `{"login_status": false}`},
		{"message_login('USR001')", ""},
		{"message_get_login_status()", `{"login_status": true}`},
		{"list_users()", `{"user_list": ["Alice", "Bob", "Catherine", "Daniel"]}`},
		{"get_user_id('Bob')", `{"user_id": "USR002"}`},
		{"get_user_id('Eve')", "error"},
		{"send_message('Bob', 'hi')", "error"},
		{"add_contact('Eve')", `{"added_status": true, "user_id": "USR005", "message": "Contact 'Eve' added successfully."}`},
		{"add_contact('Eve')", "error"},
		{"send_message('USR005', 'Hello there')", `{"sent_status": true, "message_id": {"new_id": 67410}, "message": "Message sent to 'USR005' successfully."}`},
		{"search_messages('HELLO')", `{"results": [{"receiver_id": "USR005", "message": "Hello there"}]}`},
		{"get_message_stats()", `{"stats": {"received_count": 4, "total_contacts": 4}}`},
		{"delete_message('USR005')", ""},
		{"delete_message('USR005')", "error"},
		{"send_message(['USR005'], 'x')", "error"},
	}.run(t, newSimulator(t, `{}`, "MessageAPI"))
}

func TestTickets(t *testing.T) {
	t.Parallel()
	transcript{
		{"create_ticket('a')", "error"},
		{"get_user_tickets()", ""},
		{"ticket_login('', 'x')", `{"success": false}`},
		{"logout()", `{"success": false}`},
		{"ticket_login('ann', 'x')", `{"success": true}`},
		{"ticket_get_login_status()", `{"login_status": true}`},
		{"create_ticket('a', priority=6)", "error"},
		{"create_ticket('a')", `{"id": 1, "title": "a", "description": "", "status": "Open", "priority": 1, "created_by": "ann"}`},
		{"edit_ticket(1, {'colour': 'red'})", "error"},
		{"edit_ticket(1, {'priority': 9, 'description': None})", `{"status": "Ticket 1 has been updated successfully."}`},
		{"edit_ticket(1, {'title': 'b', 'priority': 2})", ""},
		{"edit_ticket(2, {})", "error"},
		{"get_ticket(1)", `{"id": 1, "title": "b", "description": "", "status": "Open", "priority": 2, "created_by": "ann"}`},
		{"get_ticket('1')", "error"},
		{"resolve_ticket(1, 'done')", ""},
		{"resolve_ticket(1, 'done')", "error"},
		{"close_ticket(1)", ""},
		{"close_ticket(1)", "error"},
		{"get_user_tickets('Open')", "[]"},
		{"get_user_tickets('Closed')", `[{'id': 1, 'title': 'b', 'description': '', 'status': 'Closed', 'priority': 2, 'created_by': 'ann', 'resolution': 'done'}]`},
		{"logout()", `{"success": true}`},
	}.run(t, newSimulator(t, `{}`, "TicketAPI"))
}

func TestTweets(t *testing.T) {
	t.Parallel()
	transcript{
		{"post_tweet('x')", "error"},
		{"retweet(0)", "error"},
		{"follow_user('eve')", "error"},
		{"authenticate_twitter('john', 'x')", `{"authentication_status": false}`},
		{"posting_get_login_status()", `{"login_status": false}`},
		{"authenticate_twitter('john', 'john123')", `{"authentication_status": true}`},
		{"post_tweet('Hello', ['#a'])", `{"id": 0, "username": "john", "content": "Hello", "tags": ["#a"], "mentions": []}`},
		{"post_tweet('x', 'tag')", "error"},
		{"mention(0, ['@eve'])", ""},
		{"mention(1, ['@eve'])", "error"},
		{"comment(0, 'nice')", ""},
		{"comment(7, 'nice')", "error"},
		{"get_tweet_comments(0)", `[{'username': 'john', 'content': 'nice'}]`},
		{"retweet(0)", `{"retweet_status": "Successfully retweeted"}`},
		{"retweet(0)", `{"retweet_status": "Already retweeted"}`},
		{"follow_user('alice')", `{"follow_status": false}`},
		{"follow_user('eve')", `{"follow_status": true}`},
		{"unfollow_user('bob')", `{"unfollow_status": true}`},
		{"unfollow_user('bob')", `{"unfollow_status": false}`},
		{"list_all_following()", `{"following_list": ["alice", "eve"]}`},
		{"get_tweet(0)", `{"id": 0, "username": "john", "content": "Hello", "tags": ["#a"], "mentions": ["@eve"]}`},
		{"get_tweet(5)", "error"},
		{"get_tweet([])", "error"},
		{"search_tweets('#A')", `[{'id': 0, 'username': 'john', 'content': 'Hello', 'tags': ['#a'], 'mentions': ['@eve']}]`},
		{"search_tweets('#')", "[]"}, // a part of a tag,
		{"get_user_tweets('eve')", "[]"},
		{"get_user_stats('john')", `{"tweet_count": 1, "following_count": 2, "retweet_count": 1}`},
	}.run(t, newSimulator(t, `{}`, "TwitterAPI"))
}

func TestTrading(t *testing.T) {
	t.Parallel()
	transcript{
		{"get_account_info()", "error"},
		{"trading_logout()", `{"status": "No user is currently logged in"}`},
		{"trading_login('a', 'b')", `{"status": "Logged in successfully"}`},
		{"trading_login('a', 'b')", `{"status": "Already logged in"}`},
		{"get_symbol_by_name('Zeta Corp')", `{"symbol": "ZETA"}`},
		{"get_symbol_by_name('?')", `{"symbol": "Stock not found"}`},
		{"place_order('Buy', 'AAPL', 227.16, 100)", "error"},
		{"place_order('Sell', 'AAPL', 1, 100)", `{"order_id": 12446, "order_type": "Sell", "status": "Pending", "price": 1.0, "amount": 100}`},
		{"place_order('Buy', 'XXXX', 1, 1)", "error"},
		{"place_order('Buy', 'AAPL', 0, 1)", "error"},
		{"cancel_order(12345)", "error"},
		{"cancel_order(1)", "error"},
		{"cancel_order(12446)", `{"order_id": 12446, "status": "Cancelled"}`},
		{"get_order_history()", `{"history": [12345, 12446]}`},
		{"withdraw_funds(5)", "error"},
		{"fund_account(-1)", "error"},
		{"fund_account(50)", `{"status": "Account funded successfully", "new_balance": 10050.0}`},
		{"get_transaction_history()", `{"transaction_history": [{"type": "deposit", "amount": 50, "timestamp": "2024-09-02 05:40:15"}]}`},
		{"get_transaction_history('2024-09-03')", `{"transaction_history": []}`},
		{"get_transaction_history(end_date='2024-09-01')", `{"transaction_history": []}`},
		{"get_transaction_history('yesterday')", "error"},
		{"filter_stocks_by_price(['AAPL', 'ZETA', '?'], 20, 30)", `{"filtered_stocks": ["ZETA"]}`},
		{"notify_price_change(['NVDA', 'AAPL'], 0.3)", `{"notification": "Stocks NVDA have significant price changes."}`},
		{"add_to_watchlist('?')", `{"watchlist": ["NVDA"]}`},
		{"remove_stock_from_watchlist('AAPL')", "error"},
		{"get_available_stocks('Farming')", `{"stock_list": []}`},
		{"fund_account('all')", "error"},
	}.run(t, newSimulator(t, `{}`, "TradingBot"))
	transcript{
		{"withdraw_funds(100)", `{"status": "Withdrawal successful", "new_balance": 900}`}, {"withdraw_funds(1000)", "error"}, {"withdraw_funds(0)", "error"},
	}.run(t, newSimulator(t, `{"TradingBot": {"authenticated": true, "market_status": "Open", "account_info": {"balance": 1000}}}`, "TradingBot"))
}

func TestTravel(t *testing.T) {
	t.Parallel()
	const book = "book_flight('tok', 'c1', '2026-11-10', 'SFO', 'LAX', 'first')"
	transcript{
		{"get_flight_cost('SFO', 'LAX', '2026-11-11', 'first')", `{"travel_cost_list": [2000.0]}`}, // 14 is even: twice 5 * 200
		{"get_flight_cost('LAX', 'XXX', '2026-11-11', 'first')", "error"},
		{"get_flight_cost('SFO', 'LAX', 'soon', 'first')", `{"travel_cost_list": [2000.0]}`},
		{"get_flight_cost('SFO', 'LAX', '2026-11-11', 'steerage')", "error"},
		{book, `{"booking_id": "3426812", "transaction_id": "45451592", "booking_status": true, "booking_history": {}}`},
		{"get_credit_card_balance('tok', 'c1')", `{"card_balance": 2000.0}`},
		{book, "error"}, // 2,000 is below the limit
		{"book_flight('bad', 'c1', '2026-11-10', 'SFO', 'LAX', 'first')", "error"},
		{"book_flight('tok', 'c9', '2026-11-10', 'SFO', 'LAX', 'first')", "error"},
		{"book_flight('tok', 'c2', '2026-11-10', 'SFO', 'LAX', 'first')", "error"},
		{"book_flight('tok', 'c1', 'soon', 'SFO', 'LAX', 'economy')", "error"},
		{"purchase_insurance('tok', 'full', 9000, '3426812', 'c1')", "error"},
		{"purchase_insurance('tok', 'full', 10, '1', 'c1')", "error"},
		{"retrieve_invoice('tok', '1')", "error"},
		{"contact_customer_support('1', 'help')", "error"},
		{"cancel_booking('tok', '1')", "error"},
		{"cancel_booking('tok', '3426812')", `{"cancel_status": true}`},
		{"get_booking_history('tok')", `{"booking_history": {}}`},
		{"compute_exchange_rate('USD', 'JPY', 2)", `{"exchanged_value": 220.0}`},
		{"compute_exchange_rate('RMB', 'USD', 10000)", `{"exchanged_value": 1428.57}`},
		{"compute_exchange_rate('RMB', 'EUR', 1)", "error"},
		{"get_nearest_airport_by_city('Atlantis')", `{"nearest_airport": "Unknown"}`},
		{"set_budget_limit('tok', 5)", `{"budget_limit": 5.0}`},
		{"travel_get_login_status()", `{"status": true}`},
		{"get_budget_fiscal_year()", `{"budget_fiscal_year": "2018"}`},
		{"verify_traveler_information('Ann', 'Lee', '2010-01-01', 'US1')", ""},
		{"verify_traveler_information('Ann', 'Lee', '2000-01-01', 'US1')", `{"verification_status": true}`},
	}.run(t, newSimulator(t, `{"TravelAPI": {"access_token": "tok", "token_expires_in": 9, "budget_limit": 2500.0, "user_first_name": "Ann", "user_last_name": "Lee",
		"credit_card_list": {"c1": {"balance": 3000}, "c2": {}}}}`, "TravelAPI"))
	transcript{
		{"travel_get_login_status()", `{"status": false}`},
		{"authenticate_travel('i', 's', 'r', 'read', 'A', 'B')", `{"expires_in": 2, "access_token": "251675", "token_type": "Bearer", "scope": "read"}`},
	}.run(t, newSimulator(t, `{}`, "TravelAPI"))
}

func TestVehicle(t *testing.T) {
	t.Parallel()
	transcript{
		{"startEngine('START')", "error"},
		{"lockDoors(False, ['driver', 'boot'])", "error"},
		{"displayCarStatus('doors')", `{"doorStatus": {"driver": "locked", "passenger": "unlocked", "rear_left": "unlocked", "rear_right": "unlocked"}}`},
		{"lockDoors(False, ['passenger', 'rear_left', 'rear_right'])", `{"lockStatus": "locked", "remainingUnlockedDoors": 0}`},
		{"startEngine('START')", "error"},
		{"pressBrakePedal(2)", "error"},
		{"pressBrakePedal(0.5)", `{"brakePedalStatus": "pressed", "brakePedalForce": 500.0}`},
		{"startEngine('START')", "error"},
		{"pressBrakePedal(1)", `{"brakePedalStatus": "pressed", "brakePedalForce": 1000.0}`},
		{"setCruiseControl(50, True, 10)", "error"},
		{"startEngine('START')", `{"engineState": "running", "fuelLevel": 0.0, "batteryVoltage": 12.6}`},
		{"setCruiseControl(52, True, 10)", "error"},
		{"setCruiseControl(50, True, 10)", `{"cruiseStatus": "active", "currentSpeed": 50.0, "distanceToNextVehicle": 10.0}`},
		{"startEngine('STOP')", "error"},
		{"displayCarStatus('engine')", `{"engineState": "stopped"}`},
		{"releaseBrakePedal()", `{"brakePedalStatus": "released", "brakePedalForce": 0.0}`},
		{"fillFuelTank(51)", "error"},
		{"fillFuelTank(-1)", "error"},
		{"fillFuelTank(10)", `{"fuelLevel": 10.0}`},
		{"estimate_drive_feasibility_by_mileage(200)", `{"canDrive": true}`},
		{"estimate_drive_feasibility_by_mileage(200.5)", `{"canDrive": false}`},
		{"adjustClimateControl(212, 'fahrenheit')", `{"currentACTemperature": 212, "climateMode": "auto", "humidityLevel": 50.0}`},
		{"displayCarStatus('climate')", `{"currentACTemperature": 100.0, "fanSpeed": 50, "climateMode": "auto", "humidityLevel": 50.0}`},
		{"adjustClimateControl(20, fanSpeed=101)", "error"},
		{"adjustClimateControl(20, 'kelvin', mode='off')", `{"currentACTemperature": 20, "climateMode": "off", "humidityLevel": 50.0}`},
		{"setHeadlights('dim')", "error"},
		{"activateParkingBrake('up')", "error"},
		{"activateParkingBrake('engage')", `{"parkingBrakeStatus": "engaged", "_parkingBrakeForce": 500.0, "_slopeAngle": 10.0}`},
		{"get_outside_temperature_from_weather_com()", "error"},
		{"displayCarStatus('roof')", "error"},
		{"get_zipcode_based_on_city('Atlantis')", `{"zipcode": "00000"}`},
		{"estimate_distance('83214', '94016')", `{"distance": 980.0}`},
		{"estimate_distance('94016', '94016')", "error"},
		{"display_log(['a'])", `{"log": ["a"]}`},
	}.run(t, newSimulator(t, `{"VehicleControlAPI": {"doorStatus": {"driver": "locked", "passenger": "unlocked", "rear_left": "unlocked", "rear_right": "unlocked"}}}`, "VehicleControlAPI"))
}

func TestWrongConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ config, class, want string }{
		{`{}`, "ChessAPI", `there is no API class "ChessAPI"`},
		{`{"TicketAPI": 1}`, "TicketAPI", `the configuration of TicketAPI is no object`},
		{`{"GorillaFileSystem": {"root": {}}}`, "GorillaFileSystem", `root must be a dict`},
		{`{"GorillaFileSystem": {"root": {"r": {"type": "directory", "contents": {"f": {"type": "pipe"}}}}}}`, "GorillaFileSystem", `type of f is neither file nor directory`},
		{`{"TwitterAPI": {"tweets": []}}`, "TwitterAPI", `tweets is no dict`},
		{`{"TradingBot": {"random_seed": -1}}`, "TradingBot", `random_seed must be a whole number`},
		{`{"VehicleControlAPI": {"doorStatus": "open"}}`, "VehicleControlAPI", `doorStatus is no dict`},
	} {
		value, err := python.FromJSON([]byte(c.config))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewSimulator([]string{c.class}, value.(*python.Dict)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s from %s: %v, want %q", c.class, c.config, err, c.want)
		}
	}
}
