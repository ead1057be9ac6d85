package bfcl

import (
	"fmt"
	"math"
	"strings"

	"github.com/lathe-rl/lathe/pkg/bfcl/internal/python"
)

// vehicle is VehicleControlAPI.
type vehicle struct {
	state
	random                               *python.Random
	parkingForce, slopeAngle, pedalForce python.Value // private: no part of the state
}

var vehicleClass = define("VehicleControlAPI", newVehicle, []method[*vehicle]{
	{"startEngine(ignitionMode)", (*vehicle).startEngine},
	{"fillFuelTank(fuelAmount)", (*vehicle).fill},
	{"lockDoors(unlock, door)", (*vehicle).lockDoors},
	{"adjustClimateControl(temperature, unit='celsius', fanSpeed=50, mode='auto')", (*vehicle).climate},
	{"get_outside_temperature_from_google()", (*vehicle).outsideTemperature},
	{"get_outside_temperature_from_weather_com()", (*vehicle).noTemperature},
	{"setHeadlights(mode)", (*vehicle).headlights},
	{"displayCarStatus(option)", (*vehicle).display},
	{"activateParkingBrake(mode)", (*vehicle).parkingBrake},
	{"pressBrakePedal(pedalPosition)", (*vehicle).pressBrake},
	{"releaseBrakePedal()", (*vehicle).releaseBrake},
	{"setCruiseControl(speed, activate, distanceToNextVehicle)", (*vehicle).cruise},
	{"get_current_speed()", (*vehicle).speed},
	{"display_log(messages)", (*vehicle).log},
	{"estimate_drive_feasibility_by_mileage(distance)", (*vehicle).feasible},
	{"liter_to_gallon(liter)", (*vehicle).gallons},
	{"gallon_to_liter(gallon)", (*vehicle).liters},
	{"estimate_distance(cityA, cityB)", (*vehicle).distance},
	{"get_zipcode_based_on_city(city)", (*vehicle).zipCode},
	{"set_navigation(destination)", (*vehicle).navigate},
	{"check_tire_pressure()", (*vehicle).tires},
	{"find_nearest_tire_shop()", (*vehicle).tireShop},
})

const vehicleName = "VehicleControlAPI"

func newVehicle(config *python.Dict) *vehicle {
	v := &vehicle{state: newState(vehicleName, config), random: seeded(vehicleName, config), pedalForce: 0.0}
	if engine, given := config.Get("engineState"); given {
		v.Set("engine_state", engine)
	}
	private := func(attribute, setting string) python.Value {
		if value, given := config.Get(setting); given {
			return value
		}
		return v.value(attribute)
	}
	v.parkingForce = private("_parkingBrakeForce", "parkingBrakeForce")
	v.slopeAngle = private("_slopeAngle", "slopeAngle")
	v.pedalForce = private("brakePedalForce", "brakePedalForce")
	for _, attribute := range []string{"_parkingBrakeForce", "_slopeAngle", "brakePedalForce"} {
		v.Delete(attribute)
	}
	v.countDoors()
	v.Set("long_context", false)
	return v
}

// countDoors sets how many of the four doors are not locked.
func (v *vehicle) countDoors() python.Value {
	doors, unlocked := v.dict("doorStatus"), int64(4)
	for i := range doors.Len() {
		if _, status := doors.At(i); python.Equal(status, "locked") {
			unlocked--
		}
	}
	v.Set("remainingUnlockedDoors", unlocked)
	return unlocked
}

func (v *vehicle) startEngine(a arguments) python.Value {
	mode := a.text(0)
	if mode == "STOP" {
		v.Set("engine_state", "stopped")
	}
	if less(int64(0), v.value("remainingUnlockedDoors")) {
		var open []string
		doors := v.dict("doorStatus")
		for i := range doors.Len() {
			if door, status := doors.At(i); !python.Equal(status, "locked") {
				open = append(open, python.String(door))
			}
		}
		return failed("All doors must be locked before starting the engine. Not locked: %s.", strings.Join(open, ", "))
	}
	refuseIf(!python.Equal(v.value("brakePedalStatus"), "pressed") || !python.Equal(v.pedalForce, table[int64](vehicleName, "max_brake_force_newton")), failed("The brake pedal must be fully pressed when starting the engine."))
	refuseIf(mode != "START", failed("Invalid ignition mode: %s.", mode))
	v.Set("engine_state", "running")
	return result("engineState", "running", "fuelLevel", v.value("fuelLevel"), "batteryVoltage", v.value("batteryVoltage"))
}

func (v *vehicle) fill(a arguments) python.Value {
	refuseIf(less(a.number(0), int64(0)), failed("Fuel amount cannot be negative."))
	level := apply('+', v.value("fuelLevel"), a[0])
	refuseIf(less(table[int64](vehicleName, "max_fuel_gallons"), level), failed("Cannot fill gas above the tank capacity."))
	v.Set("fuelLevel", level)
	return result("fuelLevel", level)
}

func (v *vehicle) lockDoors(a arguments) python.Value {
	status := "locked"
	if python.Truth(a[0]) {
		status = "unlocked"
	}
	doors := v.dict("doorStatus")
	for _, door := range a.list(1).Items {
		member(doors, door)
		doors.Set(door, status)
		v.countDoors()
	}
	return result("lockStatus", status, "remainingUnlockedDoors", v.countDoors())
}

func (v *vehicle) climate(a arguments) python.Value {
	temperature, unit, speed, mode := a.number(0), a.text(1), a.number(2), a.text(3)
	refuseIf(less(speed, int64(0)) || less(int64(100), speed), failed("Fan speed must be between 0 and 100."))
	v.Set("acTemperature", temperature)
	if unit == "fahrenheit" { // any other unit is taken for celsius, and any mode is one
		v.Set("acTemperature", apply('/', apply('*', apply('-', temperature, int64(32)), int64(5)), int64(9)))
	}
	v.Set("fanSpeed", speed)
	v.Set("acMode", mode)
	return result("currentACTemperature", temperature, "climateMode", mode, "humidityLevel", v.value("humidityLevel"))
}

func (v *vehicle) outsideTemperature(arguments) python.Value {
	return result("outsideTemperature", v.random.Uniform(-10, 40))
}

func (v *vehicle) noTemperature(arguments) python.Value { return result("error", int64(404)) }

func (v *vehicle) headlights(a arguments) python.Value {
	status := "off"
	switch mode := a.text(0); mode {
	case "on":
		status = "on"
	case "off", "auto":
	default:
		return failed("Invalid headlight mode '%s'.", mode)
	}
	v.Set("headLightStatus", status)
	return result("headlightStatus", status)
}

func (v *vehicle) display(a arguments) python.Value {
	switch option := a.text(0); option {
	case "fuel":
		return result("fuelLevel", v.value("fuelLevel"))
	case "battery":
		return result("batteryVoltage", v.value("batteryVoltage"))
	case "doors":
		return result("doorStatus", v.value("doorStatus"))
	case "climate":
		return result("currentACTemperature", v.value("acTemperature"), "fanSpeed", v.value("fanSpeed"),
			"climateMode", v.value("acMode"), "humidityLevel", v.value("humidityLevel"))
	case "headlights":
		return result("headlightStatus", v.value("headLightStatus"))
	case "parkingBrake":
		return result("parkingBrakeStatus", v.value("parkingBrakeStatus"), "parkingBrakeForce", v.parkingForce, "slopeAngle", v.slopeAngle)
	case "brakePedal":
		return result("brakePedalStatus", v.value("brakePedalStatus"), "brakePedalForce", v.pedalForce)
	case "engine":
		return result("engineState", v.value("engine_state"))
	default:
		return failed("Invalid option '%s'.", option)
	}
}

func (v *vehicle) parkingBrake(a arguments) python.Value {
	status, force := "released", 0.0
	switch mode := a.text(0); mode {
	case "engage":
		status, force = "engaged", table[float64](vehicleName, "parking_brake_force_newton")
	case "release":
	default:
		return failed("Invalid mode '%s'.", mode)
	}
	v.Set("parkingBrakeStatus", status)
	v.parkingForce, v.slopeAngle = force, table[float64](vehicleName, "parking_brake_slope_angle")
	return result("parkingBrakeStatus", status, "_parkingBrakeForce", v.parkingForce, "_slopeAngle", v.slopeAngle)
}

func (v *vehicle) pressBrake(a arguments) python.Value {
	position := a.number(0)
	refuseIf(less(position, int64(0)) || less(int64(1), position), failed("Pedal position must be between 0 and 1."))
	if python.Equal(position, int64(0)) {
		return v.releaseBrake(nil)
	}
	v.pedalForce = apply('*', table[int64](vehicleName, "max_brake_force_newton"), position)
	v.Set("brakePedalStatus", "pressed")
	return result("brakePedalStatus", "pressed", "brakePedalForce", must(python.Float(v.pedalForce)))
}

func (v *vehicle) releaseBrake(arguments) python.Value {
	v.pedalForce = 0.0
	v.Set("brakePedalStatus", "released")
	return result("brakePedalStatus", "released", "brakePedalForce", v.pedalForce)
}

func (v *vehicle) cruise(a arguments) python.Value {
	refuseIf(python.Equal(v.value("engine_state"), "stopped"), failed("Start the engine before activating the cruise control."))
	speed, distance := must(python.Float(a[0])), must(python.Float(a[2]))
	status := "inactive"
	v.Set("distanceToNextVehicle", distance) // whether or not the speed is right
	if python.Truth(a[1]) {
		if speed < 0 || speed > 120 || math.Mod(speed, 5) != 0 {
			return failed("Invalid speed. It must be between 0 and 120 and a multiple of 5.")
		}
		status = "active"
	}
	v.Set("cruiseStatus", status)
	return result("cruiseStatus", status, "currentSpeed", speed, "distanceToNextVehicle", distance)
}

func (v *vehicle) speed(arguments) python.Value {
	return result("currentSpeed", v.random.Uniform(0, 120))
}

func (v *vehicle) log(a arguments) python.Value { return result("log", a[0]) }

func (v *vehicle) feasible(a arguments) python.Value {
	reach := apply('*', v.value("fuelLevel"), table[float64](vehicleName, "miles_per_gallon"))
	return result("canDrive", !less(reach, a.number(0)))
}

func (v *vehicle) gallons(a arguments) python.Value {
	return result("gallon", apply('*', a.number(0), table[float64](vehicleName, "liter_to_gallon")))
}

func (v *vehicle) liters(a arguments) python.Value {
	return result("liter", apply('*', a.number(0), table[float64](vehicleName, "gallon_to_liter")))
}

func (v *vehicle) distance(a arguments) python.Value {
	pair := []string{a.text(0), a.text(1)}
	distances := table[*python.Dict](vehicleName, "distance_by_zip_pair_symmetric")
	for _, key := range []string{pair[0] + "|" + pair[1], pair[1] + "|" + pair[0]} {
		if distance, known := distances.Get(key); known {
			return result("distance", distance)
		}
	}
	return failed("%s", table[string](vehicleName, "distance_error"))
}

func (v *vehicle) zipCode(a arguments) python.Value {
	code, known := table[*python.Dict](vehicleName, "zipcode_by_city").Get(a.key(0))
	if !known {
		code = table[string](vehicleName, "zipcode_unknown")
	}
	return result("zipcode", code)
}

func (v *vehicle) navigate(a arguments) python.Value {
	v.Set("destination", a[0])
	return result("status", fmt.Sprintf("Navigating to %s", python.String(a[0])))
}

func (v *vehicle) tires(arguments) python.Value {
	pressures := &python.Dict{}
	var sum python.Value = int64(0)
	for _, name := range []string{"frontLeftTirePressure", "frontRightTirePressure", "rearLeftTirePressure", "rearRightTirePressure"} {
		pressures.Set(name, v.value(name))
		sum = apply('+', sum, v.value(name))
	}
	mean, healthy := apply('/', sum, int64(4)), table[*python.List](vehicleName, "healthy_tire_mean_psi").Items
	pressures.Set("healthy_tire_pressure", !less(mean, healthy[0]) && !less(healthy[1], mean))
	pressures.Set("car_info", result())
	return pressures
}

func (v *vehicle) tireShop(arguments) python.Value {
	return result("shopLocation", table[string](vehicleName, "nearest_tire_shop"))
}
