# resources.awk: what ptxas -v says of each kernel (demangled), one line each, and
# whether any of them spills registers to memory, or has its tensor core products
# wait for each other. Kernels whose name matches COLD may spill.
/Compiling entry function/ {
    split($0, quoted, "'")
    name = quoted[2]
    arch = quoted[4]
}
# Of a function that a kernel calls the properties come under its own name.
/Function properties for/ {
    of = $0
    sub(/.*properties for /, "", of)
}
/bytes stack frame/ {
    stack[of, arch] = $1
    spills[of, arch] = $5 + $9
}
# Tensor core products that wait for each other (C7510), and registers that are not given away (C7508).
/Potential Performance Loss|setmaxnreg ignored/ {
    sub(/.*info[ ]*: /, "")
    bad[++failed] = $0
}
/Used [0-9]+ registers/ {
    registers = shared = 0
    for (i = 1; i < NF; i++) {
        if ($(i + 1) ~ /^registers/) registers = $i
        if ($i == "bytes" && $(i + 1) ~ /^smem/) shared = $(i - 1)
    }
    lines[++count] = sprintf("%-6s %9d %9d %7d %7d  %s", arch, registers, shared, stack[name, arch], spills[name, arch], name)
    if (spills[name, arch] > 0 && (COLD == "" || name !~ COLD)) bad[++failed] = name " (" arch ") spills registers"
}
END {
    printf "%-6s %9s %9s %7s %7s  %s\n", "arch", "registers", "shared B", "stack B", "spill B", "kernel"
    for (i = 1; i <= count; i++) print lines[i]
    if (count == 0) {
        print "resources: no kernel was reported"
        exit 1
    }
    for (i = 1; i <= failed; i++) print "resources: " bad[i]
    print count " kernels, " failed + 0 " that lose time by it"
    exit failed > 0
}
