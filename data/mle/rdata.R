# Rscript rdata.R PACKAGE DATASET FILE writes a data set of an R package as CSV.
# The first column, without a name, holds the row names; missing values are empty.
arguments <- commandArgs(trailingOnly = TRUE)
found <- new.env()
data(list = arguments[2], package = arguments[1], envir = found)
write.csv(as.data.frame(found[[arguments[2]]]), arguments[3], na = "", fileEncoding = "UTF-8")
