package bfcl

import "testing"

// What the published implementation (bfcl-eval 2026.3.23) gave to calls that
// the traces do not have: those that need no login or are refused with a list,
// and those that leave a state behind although they fail.
func TestCallsBeyondTheTraces(t *testing.T) {
	t.Parallel()
	transcript{
		{"get_order_details(12345)", `{"id": 12345, "order_type": "Buy", "symbol": "AAPL", "price": 210.65, "amount": 10, "status": "Completed"}`},
		{"get_order_history()", "[{'error': 'User not authenticated. Please log in to view order history.'}]"},
		{"get_transaction_history()", "[{'error': 'User not authenticated. Please log in to view transaction history.'}]"},
		{"get_watchlist()", "['Error: User not authenticated. Please log in to view the watchlist.']"},
		{"cancel_order(12446)", `{"order_id": 12446, "status": "Cancelled"}`},
		{"filter_stocks_by_price(['AAPL', '?'], 0, 1)", `{"filtered_stocks": ["?"]}`},
		{"notify_price_change(['AAPL', '?'], 0.17)", `{"notification": "Stocks AAPL have significant price changes."}`},
		{"trading_login('a', 'b')", ""},
		{"place_order('buy', 'AAPL', 100, 100.5)", `{"order_id": 12447, "order_type": "buy", "status": "Pending", "price": 100.0, "amount": 100.5}`},
		{"get_transaction_history('', '')", `{"transaction_history": []}`},
	}.run(t, newSimulator(t, `{"TradingBot": {"order_counter": 12447, "orders": {
		"12345": {"id": 12345, "order_type": "Buy", "symbol": "AAPL", "price": 210.65, "amount": 10, "status": "Completed"},
		"12446": {"id": 12446, "order_type": "Sell", "symbol": "AAPL", "price": 210.65, "amount": 10, "status": "Pending"}}}}`, "TradingBot"))
	transcript{
		{"add_contact('Eve')", `{"added_status": true, "user_id": "USR005", "message": "Contact 'Eve' added successfully."}`},
		{"message_login('USR001')", ""},
		// The first of two equal messages goes, and not the latest one.
		{"delete_message('USR002')", ""},
		{"view_messages_sent()", `{"messages": {"USR003": ["b"], "USR002": ["a"]}}`},
		{"get_message_stats()", `{"stats": {"received_count": 2, "total_contacts": 2}}`},
	}.run(t, newSimulator(t, `{"MessageAPI": {"inbox": [{"USR002": "a"}, {"USR003": "b"}, {"USR002": "a"}]}}`, "MessageAPI"))
	transcript{
		{"get_user_tickets('OPEN')", "[{'id': 1, 'status': 'Open', 'created_by': 'ann'}]"},
		{"get_user_tickets('')", "[{'id': 1, 'status': 'Open', 'created_by': 'ann'}]"},
		{"create_ticket('del \x7f')", `{"id": 2, "title": "del \u007f", "description": "", "status": "Open", "priority": 1, "created_by": "ann"}`},
	}.run(t, newSimulator(t, `{"TicketAPI": {"current_user": "ann", "ticket_counter": 2, "ticket_queue": [{"id": 1, "status": "Open", "created_by": "ann"}]}}`, "TicketAPI"))
	transcript{
		{"get_user_tickets()", "error"},
	}.run(t, newSimulator(t, `{"TicketAPI": {"current_user": "ann", "ticket_queue": [{"id": 1, "status": "Open"}]}}`, "TicketAPI"))
	transcript{
		{"startEngine('START')", "error"}, // the force is there, and the pedal is not pressed
		{"startEngine('STOP')", "error"},
		{"setCruiseControl(50, True, 10)", "error"},
	}.run(t, newSimulator(t, `{"VehicleControlAPI": {"brakePedalForce": 1000.0, "brakePedalStatus": "released",
		"doorStatus": {"driver": "locked", "passenger": "locked", "rear_left": "locked", "rear_right": "locked"}}}`, "VehicleControlAPI"))
	transcript{
		{"compute_exchange_rate('USD', 'USD', 5)", "error"},
		{"get_flight_cost('SFO', 'LAX', 'May 3', 'economy')", `{"travel_cost_list": [200.0]}`},
		{
			"verify_traveler_information('Eve', 'Lee', '2000-01-01', 'US1')",
			`{"verification_status": false, "verification_failure": "Cannot book flight information for another user.Expected Ann None, got Eve Lee"}`,
		},
		{
			"verify_traveler_information('Ann', None, 'May', 'US1')",
			`{"verification_status": false, "verification_failure": "Invalid date of birth format. Please use YYYY-MM-DD."}`,
		},
	}.run(t, newSimulator(t, `{"TravelAPI": {"user_first_name": "Ann"}}`, "TravelAPI"))
	transcript{
		{"cd('sub/')", `{"current_working_directory": "sub"}`},
		{"cd('.')", `{"current_working_directory": "sub"}`},
		{"find('/', 'a')", `{"matches": ["/a.txt", "/sub/a.txt"]}`},
		{"find('/sub')", `{"matches": ["/sub/a.txt"]}`},
		{"echo('x', '')", `{"terminal_output": "x"}`},
		{"mv('a.txt', 'b?')", `{"result": "'a.txt' moved to 'b?'"}`},
		{"cd('/')", `{"current_working_directory": "home"}`},
		{"cd('/sub')", "error"},
		{"pwd()", `{"current_working_directory": "/home"}`},
	}.run(t, newSimulator(t, `{"GorillaFileSystem": {"root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": ""},
		"sub": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "b"}}}}}}}}`, "GorillaFileSystem"))
}

// A cruise that is refused for its speed has set the distance.
func TestRefusedCruiseSetsTheDistance(t *testing.T) {
	t.Parallel()
	simulator := newSimulator(t, `{"VehicleControlAPI": {"engineState": "running"}}`, "VehicleControlAPI")
	transcript{{"setCruiseControl(52, True, 10)", "error"}}.run(t, simulator)
	if distance := simulator.members[0].object.(*vehicle).value("distanceToNextVehicle"); distance != 10.0 {
		t.Errorf("the distance is %v", distance)
	}
}
